/* SPDX-License-Identifier: Apache-2.0 */
/* Where a segment lies: in the caller's buffers, in the scratch, and who of the peers adds up and
 * takes which part of it. Nothing is sent here.
 */
#include "shim/mpi/segment.h"

struct cshim_segment cshim_segment_at(const struct cshim_exchange *exchange, uint64_t index)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t slot = index % CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t begin = index * plan->segment;
    struct cshim_segment segment = {
        .index = index,
        .whole = {begin, plan->count - begin < plan->segment ? plan->count - begin : plan->segment},
        .scratch = exchange->comm->scratch + slot * plan->slot_bytes,
        .requests = exchange->comm->requests + slot * CSHIM_MESSAGE_KINDS * plan->peers,
    };
    if (cshim_is_scattered(exchange))
        segment.whole = (struct cshim_range){0, plan->count};
    segment.share = segment.whole;
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL) {
        segment.share =
            cshim_levels_share(exchange, &segment.whole, exchange->comm->layout.local_rank);
        segment.stage = segment.scratch + plan->slot_bytes - plan->stage_bytes;
    }
    return segment;
}

bool cshim_takes_sums(const struct cshim_exchange *exchange, int peer)
{
    if (exchange->plan->collective == CSHIM_REDUCE)
        return peer == (int)exchange->plan->root;
    return !cshim_is_scattered(exchange);
}

/* The chunk of a peer's result that a segment of a reduce_scatter has. */
static struct cshim_range scattered(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, int peer)
{
    const uint64_t begin = exchange->comm->block_begins[peer];
    const uint64_t length = exchange->comm->block_begins[peer + 1] - begin;
    const uint64_t chunk = exchange->plan->segment / exchange->plan->peers;
    const uint64_t done = segment->index * chunk;
    if (done >= length)
        return (struct cshim_range){begin, 0};
    return (struct cshim_range){begin + done, length - done < chunk ? length - done : chunk};
}

struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer)
{
    struct cshim_range range = {0, segment->share.length};
    if (cshim_is_scattered(exchange))
        return scattered(exchange, segment, peer);
    if (!cshim_is_gathered(exchange))
        cshim_plan_chunk(segment->share.length, exchange->plan->peers, (uint32_t)peer, &range.begin,
                         &range.length);
    else if (!cshim_takes_sums(exchange, peer))
        range.length = 0;
    return range;
}

const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, uint64_t element)
{
    if (segment->stage != NULL)
        return segment->stage + element * exchange->element_bytes;
    return exchange->input + (segment->share.begin + element) * exchange->element_bytes;
}

/* A reduce_scatter writes to the place that its own result has in the caller's buffer: before, in
 * place, are only elements that have been encoded. */
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element)
{
    if (segment->stage != NULL)
        return segment->stage + element * exchange->element_bytes;
    if (cshim_is_scattered(exchange))
        element -= exchange->comm->block_begins[exchange->rank];
    return exchange->output + (segment->share.begin + element) * exchange->element_bytes;
}

/* Scratch of a segment: parts received from each peer (own: what it would have sent itself), then
 * reduced chunks of each peer, then parts to send to each. An allgather sends its own part. */
uint8_t *cshim_segment_piece(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer kind, int peer)
{
    const uint64_t peers = exchange->plan->peers;
    uint64_t index = (uint64_t)peer;
    if (kind == CSHIM_RECEIVE_REDUCED || kind == CSHIM_SEND_REDUCED)
        index += peers;
    else if (kind == CSHIM_SEND_PARTS && !cshim_is_gathered(exchange) && peer != exchange->rank)
        index += 2 * peers;
    else if (kind == CSHIM_SEND_PARTS)
        index = (uint64_t)exchange->rank;
    return segment->scratch + index * exchange->plan->piece_bytes;
}
