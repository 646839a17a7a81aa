/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a schedule inside a node: the library's own collectives among its ranks, before and
 * behind what nodes exchange. */
#include "shim/host/segment.h"

#include <string.h>

/* Counts so many elements, once for the node. */
static void count_inside(struct cshim_exchange *exchange, uint64_t elements)
{
    if (exchange->communicator->layout.local_rank == 0)
        exchange->figures.bytes_wire += elements * exchange->element_bytes;
}

/* Finds the shares of all local ranks. */
static void find_shares(struct cshim_exchange *exchange, const struct cshim_range *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    for (int i = 0; i < layout->local_ranks; i++) {
        const struct cshim_range share = cshim_segment_share(exchange, segment, i);
        communicator->share_begins[i] = (int)(share.begin - segment->begin);
        communicator->share_lengths[i] = (int)share.length;
    }
}

/* Copies the chunks of all blocks to where the library adds them: those of the first local rank on
 * all nodes, those of the second, and so on. Returns how many elements these are. */
static uint64_t stage_blocks(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                             uint8_t *blocks)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const size_t element = exchange->element_bytes;
    uint64_t staged = 0;
    for (int local_rank = 0; local_rank < layout->local_ranks; local_rank++) {
        const uint64_t begin = staged;
        for (int node = 0; node < (int)layout->nodes; node++) {
            const struct cshim_range chunk =
                cshim_segment_block(exchange, segment, node, local_rank);
            if (local_rank == layout->local_rank)
                communicator->share_begins[node] = (int)(staged - begin);
            memcpy(blocks + staged * element, exchange->input + chunk.begin * element,
                   chunk.length * element);
            staged += chunk.length;
        }
        communicator->share_lengths[local_rank] = (int)(staged - begin);
    }
    return staged;
}

/* A reduce-scatter or an all-gather sends at least all elements to all ranks but one. */
int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const uint8_t *input = exchange->input + segment->whole.begin * exchange->element_bytes;
    uint64_t elements = segment->whole.length;
    if (plan->schedule->division == CSHIM_BLOCKS) {
        uint8_t *blocks = segment->stage + plan->stage_bytes / (plan->shares + 1);
        elements = stage_blocks(exchange, segment, blocks);
        input = blocks;
    } else {
        find_shares(exchange, &segment->whole);
    }
    const int status = communicator->transport->reduce_inside(exchange, input, segment->stage,
                                                              communicator->share_lengths);
    count_inside(exchange, (uint64_t)(communicator->layout.local_ranks - 1) * elements);
    cshim_event_step(exchange, CSHIM_STEP_REDUCE_INSIDE);
    return status;
}

int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const struct cshim_plan *plan = exchange->plan;
    uint64_t elements = (uint64_t)(layout->local_ranks - 1) * segment->whole.length;
    find_shares(exchange, &segment->whole);
    if (plan->schedule->sums_to == CSHIM_TO_ROOT)
        elements = segment->whole.length -
                   (uint64_t)communicator->share_lengths[layout->local_of[plan->root]];
    const int status = communicator->transport->gather_inside(
        exchange, segment->stage, exchange->output + segment->whole.begin * exchange->element_bytes,
        communicator->share_lengths, communicator->share_begins);
    count_inside(exchange, elements);
    cshim_event_step(exchange, CSHIM_STEP_GATHER_INSIDE);
    return status;
}
