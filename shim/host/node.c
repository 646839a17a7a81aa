/* SPDX-License-Identifier: Apache-2.0 */
/* Intra-node operations of staged schedules, before and after the inter-node exchange.
 *
 * Ranks that share memory copy their elements of the other ranks' shares into the area that follows
 * the shared scratch. Each rank reads the others' elements of its own share there, and adds them. A
 * reduced share, except in a reduce-scatter, is written to its rank's stage, where the others read
 * it.
 *
 * A barrier of the node separates writing from reading. The area has two halves, used in turn:
 * before a rank writes to a half again, it has passed a barrier that the others entered after they
 * had read the half. Likewise, all ranks have read a segment's stage before a later segment's sum
 * is written to it. */
#include "shim/host/node.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/log.h"
#include "shim/host/message.h"
#include "shim/host/scratch.h"

#define HALF (CSHIM_SCRATCH_INSIDE / 2)
/* Maximum number of ranks on a node that shares memory: half the area has room for a grain of each.
 */
#define RANKS_MAX (HALF / CSHIM_GRAIN / sizeof(double))

/* Counts the bytes of `elements` elements, once for the node. */
static void count_node_bytes(struct cshim_exchange *exchange, uint64_t elements)
{
    if (exchange->communicator->layout.local_rank == 0)
        exchange->figures.bytes_wire += elements * exchange->element_bytes;
}

/* Looks at one other rank: the ranks of a node can all read each other's scratch, or none can. */
bool cshim_node_may_share(const struct cshim_exchange *exchange)
{
    const struct cshim_transport *transport = exchange->communicator->transport;
    const struct cshim_layout *layout = &exchange->communicator->layout;
    return transport->scratch_of != NULL && layout->local_ranks > 1 &&
           (uint64_t)layout->local_ranks <= RANKS_MAX &&
           transport->scratch_of(exchange, layout->inside[layout->local_rank == 0]) != NULL;
}

/* Waits for all ranks of the node, and sets is_shared_inside to whether all of them have a shared
 * scratch. Then this rank's writes are visible to the others, and theirs to this rank. */
static int node_barrier(struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    const int status = communicator->transport->meet_inside(
        exchange, cshim_scratch_is_shared(communicator->scratch), &exchange->is_shared_inside);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    exchange->barriers++;
    return status;
}

/* Returns the scratch of a rank of this node. */
static const uint8_t *scratch_at(const struct cshim_exchange *exchange, int local_rank)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    return local_rank == layout->local_rank
               ? communicator->scratch
               : communicator->transport->scratch_of(exchange, layout->inside[local_rank]);
}

/* Returns the length of the longest share of the node. */
static size_t longest_share(const struct cshim_communicator *communicator)
{
    int longest = 0;
    for (int i = 0; i < communicator->layout.local_ranks; i++)
        if (communicator->share_lengths[i] > longest)
            longest = communicator->share_lengths[i];
    return (size_t)longest;
}

/* Copies this rank's contributions to the range `block` of each other local rank's share into
 * `half`, a half of its shared area. */
static void publish_block(const struct cshim_exchange *exchange, const uint8_t *input,
                          const struct cshim_range *block, uint8_t *half)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const size_t element = exchange->element_bytes, room = block->length * element;
    if (!cshim_scratch_is_shared(communicator->scratch)) /* the others learn that in the barrier */
        return;
    for (int i = 0; i < communicator->layout.local_ranks; i++)
        if (i != communicator->layout.local_rank)
            memcpy(half + (size_t)i * room,
                   input + ((uint64_t)communicator->share_begins[i] + block->begin) * element,
                   cshim_range_within(block, communicator->share_lengths[i]) * element);
}

/* Exchanges a block of the shares by shared memory, and sets communicator->inputs to the other
 * ranks' contributions to this rank's share. If a rank has no shared scratch, only clears
 * is_shared_inside. Returns 0 or a transport error. */
static int share_block(struct cshim_exchange *exchange, const uint8_t *input,
                       const struct cshim_range *block)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const uint64_t half = CSHIM_SCRATCH_LIMIT + exchange->barriers % 2 * HALF;
    const uint64_t own = (uint64_t)layout->local_rank * block->length * exchange->element_bytes;
    publish_block(exchange, input, block, communicator->scratch + half);
    const int status = node_barrier(exchange);
    for (int i = 0; i < layout->local_ranks && exchange->is_shared_inside; i++)
        communicator->inputs[i] = scratch_at(exchange, i) + half + own;
    return status;
}

/* Exchanges a block of the shares by messages, into `memory`, which has room for a block of each
 * local rank, and sets communicator->inputs. Returns 0 or a transport error. */
static int send_block(const struct cshim_exchange *exchange, const uint8_t *input,
                      const struct cshim_range *block, uint8_t *memory)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const int length = communicator->share_lengths[layout->local_rank];
    const size_t bytes = cshim_range_within(block, length) * exchange->element_bytes;
    for (int i = 0; i < layout->local_ranks; i++)
        communicator->inputs[i] = memory + (size_t)i * bytes;
    return communicator->transport->spread_inside(exchange, input, memory, block);
}

/* Allocates memory for a block of each local rank, unless it is allocated. If there is no memory,
 * ends the job or returns a transport error, because the other ranks are in the call. */
static int allocate_block(const struct cshim_exchange *exchange, size_t length, uint8_t **memory)
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

/* Adds all local ranks' contributions to this rank's share, block by block and in rank order, so
 * that shared memory and messages give the same sums. Returns 0 or a transport error. */
static int reduce_shares(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *share)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const size_t element = exchange->element_bytes;
    const size_t longest = longest_share(communicator);
    const int own = layout->local_rank;
    const uint64_t grains = HALF / (unsigned)layout->local_ranks / CSHIM_GRAIN / element;
    struct cshim_range block = {0, (grains > 0 ? grains : 1) * CSHIM_GRAIN};
    uint8_t *memory = NULL;
    int status = 0;
    for (; block.begin < longest && status == 0; block.begin += block.length) {
        if (exchange->is_shared_inside)
            status = share_block(exchange, input, &block);
        if (status == 0 && !exchange->is_shared_inside) {
            status =
                allocate_block(exchange, block.length < longest ? block.length : longest, &memory);
            if (status == 0)
                status = send_block(exchange, input, &block, memory);
        }
        if (status != 0) /* leaks the memory, because the library may still write to it */
            return status;
        communicator->inputs[own] =
            input + ((uint64_t)communicator->share_begins[own] + block.begin) * element;
        cshim_reduce(CSHIM_CODEC_RAW, exchange->plan->dtype, communicator->inputs,
                     (unsigned)layout->local_ranks,
                     cshim_range_within(&block, communicator->share_lengths[own]),
                     share + block.begin * element, NULL);
    }
    free(memory);
    return status;
}

/* Copies the reduced shares of all local ranks from their scratch to the output; in a reduce only
 * at the root. Returns 0 or a transport error. */
static int gather_shared(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                         uint8_t *output)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const size_t element = exchange->element_bytes;
    const size_t stage = (size_t)(flight->stage - communicator->scratch);
    const int status = node_barrier(exchange);
    if (plan->collective == CSHIM_REDUCE && communicator->rank != (int)plan->root)
        return status;
    for (int i = 0; i < communicator->layout.local_ranks && status == 0; i++)
        memcpy(output + (size_t)communicator->share_begins[i] * element,
               scratch_at(exchange, i) + stage, (size_t)communicator->share_lengths[i] * element);
    return status;
}

int cshim_node_close(struct cshim_exchange *exchange)
{
    const int status = exchange->is_shared_inside ? node_barrier(exchange) : 0;
    cshim_phase_end(exchange, CSHIM_PHASE_EXCHANGE);
    return status;
}

/* Computes offset and length of each local rank's share. */
static void find_shares(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    for (int i = 0; i < layout->local_ranks; i++) {
        const struct cshim_range share = cshim_segment_share(segment, i);
        communicator->share_begins[i] = (int)(share.begin - segment->whole.begin);
        communicator->share_lengths[i] = (int)share.length;
    }
}

/* Copies the chunks of all blocks in the order in which the node adds them: those for the first
 * local rank of all nodes, those for the second, and so on. Sets offset and length of each share,
 * and the offsets of this rank's chunks. Returns the number of elements. */
static uint64_t stage_blocks(struct cshim_exchange *exchange, const struct cshim_flight *flight,
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
                cshim_segment_block(&flight->segment, node, local_rank);
            if (local_rank == layout->local_rank)
                communicator->chunk_begins[node] = (int)(staged - begin);
            memcpy(blocks + staged * element, exchange->input + chunk.begin * element,
                   chunk.length * element);
            staged += chunk.length;
        }
        communicator->share_begins[local_rank] = (int)begin;
        communicator->share_lengths[local_rank] = (int)(staged - begin);
    }
    return staged;
}

int cshim_node_reduce(struct cshim_exchange *exchange, const struct cshim_flight *flight)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const uint8_t *input = exchange->input + flight->segment.whole.begin * exchange->element_bytes;
    uint64_t elements = flight->segment.whole.length;
    if (plan->schedule->division == CSHIM_BLOCKS) {
        uint8_t *blocks = flight->stage + plan->stage_bytes / (plan->shares + 1);
        elements = stage_blocks(exchange, flight, blocks);
        input = blocks;
    } else {
        find_shares(exchange, &flight->segment);
    }
    const int status = reduce_shares(exchange, input, flight->stage);
    /* Each element is sent by all other local ranks to the one that adds it. */
    count_node_bytes(exchange, (uint64_t)(communicator->layout.local_ranks - 1) * elements);
    return status;
}

int cshim_node_gather(struct cshim_exchange *exchange, const struct cshim_flight *flight)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    const struct cshim_plan *plan = exchange->plan;
    uint64_t elements = (uint64_t)(layout->local_ranks - 1) * flight->segment.whole.length;
    find_shares(exchange, &flight->segment);
    if (plan->collective == CSHIM_REDUCE)
        elements = flight->segment.whole.length -
                   (uint64_t)communicator->share_lengths[layout->local_of[plan->root]];
    uint8_t *output = exchange->output + flight->segment.whole.begin * exchange->element_bytes;
    const int status =
        exchange->is_shared_inside
            ? gather_shared(exchange, flight, output)
            : communicator->transport->gather_inside(exchange, flight->stage, output);
    count_node_bytes(exchange, elements);
    return status;
}
