/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a schedule inside a node, before and behind what nodes exchange.
 *
 * Ranks that read each other's scratch copy what they add to the memory behind it, from which each
 * rank adds its share; the job's sums are read where they were decoded. Between writing and reading
 * all of them meet. That memory has two halves, for one meeting and the next: a rank that writes to
 * a half again has met the others since they read it. For the same reason nobody reads a segment's
 * stage any more when the sum of a later segment is written to it.
 */
#include "shim/host/inside.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/log.h"
#include "shim/host/event.h"
#include "shim/host/scratch.h"

#define HALF (CSHIM_SCRATCH_INSIDE / 2)
#define RANKS_MAX (HALF / CSHIM_GRAIN / sizeof(double)) /* a grain of the share of each */

/* Counts so many elements, once for the node. */
static void count_inside(struct cshim_exchange *exchange, uint64_t elements)
{
    if (exchange->communicator->layout.local_rank == 0)
        exchange->figures.bytes_wire += elements * exchange->element_bytes;
}

/* Whether the ranks of this node can read each other's scratch: all of them can, or none. */
static bool can_read(const struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    int other = 0;
    while (other < communicator->ranks &&
           (layout->node_of[other] != layout->node || other == communicator->rank))
        other++;
    return other < communicator->ranks &&
           communicator->transport->scratch_of(exchange, other) != NULL;
}

bool cshim_steps_may_share_inside(const struct cshim_exchange *exchange)
{
    return exchange->communicator->transport->scratch_of != NULL &&
           (uint64_t)exchange->communicator->layout.local_ranks <= RANKS_MAX &&
           exchange->plan->schedule->staged && can_read(exchange);
}

/* What this rank has written can be read by the others, and what they have written by this one. */
static int meet(struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    const int status = communicator->transport->meet_inside(
        exchange, cshim_scratch_is_shared(communicator->scratch), &exchange->is_shared_inside);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    exchange->meetings++;
    return status;
}

/* The scratch of the next rank of this node from *rank on, which is set to the one behind it. */
static const uint8_t *next_scratch(const struct cshim_exchange *exchange, int *rank)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    while (layout->node_of[*rank] != layout->node)
        ++*rank;
    const int found = (*rank)++;
    return found == communicator->rank ? communicator->scratch
                                       : communicator->transport->scratch_of(exchange, found);
}

/* Where this rank's share of the node's elements begins: those of all local ranks follow each
 * other. */
static const uint8_t *own_share(const struct cshim_exchange *exchange, const uint8_t *input)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    for (int i = 0; i < communicator->layout.local_rank; i++)
        input += (size_t)communicator->share_lengths[i] * exchange->element_bytes;
    return input;
}

/* The most elements that a local rank's share has. */
static size_t longest_share(const struct cshim_communicator *communicator)
{
    int longest = 0;
    for (int i = 0; i < communicator->layout.local_ranks; i++)
        if (communicator->share_lengths[i] > longest)
            longest = communicator->share_lengths[i];
    return (size_t)longest;
}

/* Copies a block of the share of each other rank of the node to where it can be read. */
static void tell_block(const struct cshim_exchange *exchange, const uint8_t *input,
                       const struct cshim_range *block, uint8_t *half)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const size_t element = exchange->element_bytes, room = block->length * element;
    if (!cshim_scratch_is_shared(communicator->scratch)) /* which the others will be told */
        return;
    for (int i = 0; i < communicator->layout.local_ranks; i++) {
        const int length = communicator->share_lengths[i];
        if (i != communicator->layout.local_rank)
            memcpy(half + (size_t)i * room, input + block->begin * element,
                   cshim_range_within(block, length) * element);
        input += (size_t)length * element;
    }
}

/* Has all ranks of the node tell each other a block of their shares by memory that they share, and
 * finds the parts of the own one. */
static int share_block(struct cshim_exchange *exchange, const uint8_t *input,
                       const struct cshim_range *block)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const uint64_t half = CSHIM_SCRATCH_LIMIT + exchange->meetings % 2 * HALF;
    const uint64_t own = (uint64_t)layout->local_rank * block->length * exchange->element_bytes;
    int next = 0;
    tell_block(exchange, input, block, communicator->scratch + half);
    const int status = meet(exchange);
    for (int i = 0; i < layout->local_ranks && exchange->is_shared_inside; i++)
        communicator->parts[i] = next_scratch(exchange, &next) + half + own;
    return status;
}

/* The same by messages, to memory for a block of each rank. */
static int send_block(const struct cshim_exchange *exchange, const uint8_t *input,
                      const struct cshim_range *block, uint8_t *memory)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const int length = communicator->share_lengths[layout->local_rank];
    const size_t bytes = cshim_range_within(block, length) * exchange->element_bytes;
    for (int i = 0; i < layout->local_ranks; i++)
        communicator->parts[i] = memory + (size_t)i * bytes;
    return communicator->transport->spread_inside(exchange, input, memory, block);
}

/* Takes memory for a block of so many elements from each rank of the node, which are all in the
 * call, unless it has been taken. Returns an error of the transport. */
static int take_memory(const struct cshim_exchange *exchange, size_t length, uint8_t **memory)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    if (*memory != NULL)
        return 0;
    *memory = malloc((size_t)communicator->layout.local_ranks * length * exchange->element_bytes);
    if (*memory != NULL)
        return 0;
    cshim_log(CSHIM_LOG_ERROR, "no memory for the sum of a node");
    return communicator->transport->abort(exchange, "no memory for the sum of a node");
}

/* Adds this rank's share of `input`, block by block and in the order of ranks, so that sums are the
 * same in either way. */
static int reduce(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *share)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const size_t element = exchange->element_bytes;
    const size_t longest = longest_share(communicator);
    const uint64_t grains = HALF / (unsigned)layout->local_ranks / CSHIM_GRAIN / element;
    struct cshim_range block = {0, (grains > 0 ? grains : 1) * CSHIM_GRAIN};
    uint8_t *memory = NULL;
    int status = 0;
    for (; block.begin < longest && status == 0; block.begin += block.length) {
        if (exchange->is_shared_inside)
            status = share_block(exchange, input, &block);
        if (status == 0 && !exchange->is_shared_inside) {
            status =
                take_memory(exchange, block.length < longest ? block.length : longest, &memory);
            if (status == 0)
                status = send_block(exchange, input, &block, memory);
        }
        if (status != 0) /* the library may still write to the memory: it is lost */
            return status;
        communicator->parts[layout->local_rank] =
            own_share(exchange, input) + block.begin * element;
        cshim_reduce(CSHIM_CODEC_RAW, exchange->plan->dtype, communicator->parts,
                     (unsigned)layout->local_ranks,
                     cshim_range_within(&block, communicator->share_lengths[layout->local_rank]),
                     share + block.begin * element, NULL);
    }
    free(memory);
    return status;
}

/* Reads the shares of all local ranks where they lie in their scratch. */
static int gather_shared(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         uint8_t *output)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const size_t element = exchange->element_bytes;
    const size_t stage = (size_t)(segment->stage - communicator->scratch);
    const int status = meet(exchange);
    int next = 0;
    if (plan->schedule->sums_to == CSHIM_TO_ROOT && communicator->rank != (int)plan->root)
        return status;
    for (int i = 0; i < communicator->layout.local_ranks && status == 0; i++)
        memcpy(output + (size_t)communicator->share_begins[i] * element,
               next_scratch(exchange, &next) + stage,
               (size_t)communicator->share_lengths[i] * element);
    return status;
}

int cshim_steps_close_inside(struct cshim_exchange *exchange)
{
    const int status = exchange->is_shared_inside ? meet(exchange) : 0;
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    return status;
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

/* Copies the chunks of all blocks to where the node adds them: those of the first local rank on
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
    const int status = reduce(exchange, input, segment->stage);
    /* Each element goes to the rank that adds it from all others. */
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
    uint8_t *output = exchange->output + segment->whole.begin * exchange->element_bytes;
    const int status = exchange->is_shared_inside
                           ? gather_shared(exchange, segment, output)
                           : communicator->transport->gather_inside(
                                 exchange, segment->stage, output, communicator->share_lengths,
                                 communicator->share_begins);
    count_inside(exchange, elements);
    cshim_event_step(exchange, CSHIM_STEP_GATHER_INSIDE);
    return status;
}
