/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a schedule inside a node, before and behind what nodes exchange.
 *
 * Ranks that read each other's scratch copy what they add to the memory behind it, from which each
 * rank adds its share; the job's sums are read where they were decoded. Between writing and reading
 * all of them meet. That memory has two halves, for one meeting and the next: a rank that writes to
 * a half again has met the others since they read it. For the same reason nobody reads a segment's
 * stage any more when the sum of a later segment is written to it.
 */
#include "shim/host/segment.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/log.h"

#define HALF (CSHIM_SCRATCH_INSIDE / 2)
#define RANKS_MAX (HALF / CSHIM_GRAIN / sizeof(double)) /* a grain of the share of each */

/* Counts so many elements, once for the node. */
static void count_inside(struct cshim_exchange *exchange, uint64_t elements)
{
    if (exchange->communicator->layout.local_rank == 0)
        exchange->figures.bytes_wire += elements * exchange->element_bytes;
}

bool cshim_steps_may_share_inside(const struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    return communicator->transport->scratch_of != NULL && communicator->layout.local_ranks > 1 &&
           (uint64_t)communicator->layout.local_ranks <= RANKS_MAX &&
           exchange->plan->schedule->staged;
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
 * other.
 */
static const uint8_t *own_share(const struct cshim_exchange *exchange, const uint8_t *input)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    for (int i = 0; i < communicator->layout.local_rank; i++)
        input += (size_t)communicator->share_lengths[i] * exchange->element_bytes;
    return input;
}

/* The most elements that a local rank's share has. */
static int longest_share(const struct cshim_communicator *communicator)
{
    int longest = 0;
    for (int i = 0; i < communicator->layout.local_ranks; i++)
        if (communicator->share_lengths[i] > longest)
            longest = communicator->share_lengths[i];
    return longest;
}

/* The part of a share of `length` elements that is behind the first `done`, up to a block of them.
 */
static size_t part_bytes(const struct cshim_exchange *exchange, int length, int done, int block)
{
    const int left = length - done;
    return left <= 0 ? 0 : (size_t)(left < block ? left : block) * exchange->element_bytes;
}

/* Copies a part of the share of each other rank of the node to where it can be read. */
static void tell_parts(const struct cshim_exchange *exchange, const uint8_t *input, int done,
                       int block, uint8_t *half)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const size_t element = exchange->element_bytes;
    if (!cshim_scratch_is_shared(communicator->scratch)) /* which the others will be told */
        return;
    for (int i = 0; i < communicator->layout.local_ranks; i++) {
        const int length = communicator->share_lengths[i];
        if (i != communicator->layout.local_rank)
            memcpy(half + (size_t)i * (size_t)block * element, input + (size_t)done * element,
                   part_bytes(exchange, length, done, block));
        input += (size_t)length * element;
    }
}

/* Adds this rank's share of `input` by memory that all ranks of the node can read. */
static int reduce_shared(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *share)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const size_t element = exchange->element_bytes;
    const size_t block = HALF / (unsigned)layout->local_ranks / CSHIM_GRAIN / element * CSHIM_GRAIN;
    const int longest = longest_share(communicator);
    for (int done = 0; done < longest; done += (int)block) {
        const uint64_t half = CSHIM_SCRATCH_LIMIT + exchange->meetings % 2 * HALF;
        int next = 0;
        tell_parts(exchange, input, done, (int)block, communicator->scratch + half);
        const int status = meet(exchange);
        if (status != 0 || !exchange->is_shared_inside)
            return status;
        for (int i = 0; i < layout->local_ranks; i++)
            communicator->parts[i] =
                next_scratch(exchange, &next) + half + (size_t)layout->local_rank * block * element;
        communicator->parts[layout->local_rank] =
            own_share(exchange, input) + (size_t)done * element;
        cshim_reduce(CSHIM_CODEC_RAW, exchange->plan->dtype, communicator->parts,
                     (unsigned)layout->local_ranks,
                     part_bytes(exchange, communicator->share_lengths[layout->local_rank], done,
                                (int)block) /
                         element,
                     share + (size_t)done * element, NULL);
    }
    return 0;
}

/* The same by messages: the sums are the same, bit by bit. */
static int reduce_sent(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *share)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const size_t length = (size_t)communicator->share_lengths[layout->local_rank];
    const size_t bytes = length * exchange->element_bytes;
    uint8_t *parts = malloc((size_t)layout->local_ranks * bytes + 1);
    if (parts == NULL) { /* the other ranks are in the call */
        cshim_log(CSHIM_LOG_ERROR, "no memory for the sum of a node");
        communicator->transport->abort(exchange);
    }
    const int status =
        communicator->transport->spread_inside(exchange, input, parts, communicator->share_lengths);
    if (status != 0) /* the library may still write there: it is lost */
        return status;
    for (int i = 0; i < layout->local_ranks; i++)
        communicator->parts[i] = parts + (size_t)i * bytes;
    communicator->parts[layout->local_rank] = own_share(exchange, input);
    cshim_reduce(CSHIM_CODEC_RAW, exchange->plan->dtype, communicator->parts,
                 (unsigned)layout->local_ranks, length, share, NULL);
    free(parts);
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
    int status = 0;
    if (exchange->is_shared_inside)
        status = reduce_shared(exchange, input, segment->stage);
    if (status == 0 && !exchange->is_shared_inside)
        status = reduce_sent(exchange, input, segment->stage);
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
