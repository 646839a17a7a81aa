/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch of a segment, in pieces of plan->piece_bytes, with n peers:
 *
 *   one_shot, allgather    | parts of peers 0 .. n-1 |
 *   others                 | parts received from 0 .. n-1 | sums of 0 .. n-1 | parts sent to 0 ..
 * n-1 |
 *
 * In hierarchical the share's elements, in the caller's type, are at the end of the slot.
 */
#include "shim/host/segment.h"

struct cshim_range cshim_segment_share(const struct cshim_exchange *exchange,
                                       const struct cshim_range *segment, int local_rank)
{
    struct cshim_range share = {segment->begin + segment->length, 0};
    const uint32_t shares = exchange->plan->shares;
    if ((uint32_t)local_rank >= shares)
        return share;
    cshim_plan_chunk(segment->length, shares, (uint32_t)local_rank, &share.begin, &share.length);
    share.begin += segment->begin;
    return share;
}

struct cshim_segment cshim_segment_at(const struct cshim_exchange *exchange, uint64_t index)
{
    const struct cshim_plan *plan = exchange->plan;
    const unsigned slot = (unsigned)(index % CSHIM_SEGMENTS_IN_FLIGHT);
    const uint64_t begin = index * plan->segment;
    struct cshim_segment segment = {
        .index = index,
        .whole = {begin, plan->count - begin < plan->segment ? plan->count - begin : plan->segment},
        .scratch = exchange->communicator->scratch + slot * plan->slot_bytes,
        .first_request = slot * CSHIM_TRANSFERS * plan->peers,
    };
    if (plan->schedule->division == CSHIM_BLOCKS)
        segment.whole = (struct cshim_range){0, plan->count};
    segment.share = segment.whole;
    if (plan->schedule->staged) {
        segment.share = cshim_segment_share(exchange, &segment.whole,
                                            exchange->communicator->layout.local_rank);
        segment.stage = segment.scratch + plan->slot_bytes - plan->stage_bytes;
    }
    return segment;
}

/* The chunk of a peer's block that a segment has. */
static struct cshim_range block_chunk(const struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment, const uint64_t *begins,
                                      int peer)
{
    const uint64_t length = begins[peer + 1] - begins[peer];
    const uint64_t chunk = exchange->plan->segment / exchange->plan->peers;
    const uint64_t done = segment->index * chunk;
    if (done >= length)
        return (struct cshim_range){begins[peer], 0};
    return (struct cshim_range){begins[peer] + done, length - done < chunk ? length - done : chunk};
}

struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer)
{
    struct cshim_range range = {0, segment->share.length};
    const uint32_t share =
        segment->stage != NULL ? (uint32_t)exchange->communicator->layout.local_rank : 0;
    if (exchange->plan->schedule->division == CSHIM_BLOCKS)
        return block_chunk(exchange, segment, exchange->communicator->block_begins, peer);
    if (exchange->plan->schedule->division == CSHIM_CHUNKS)
        cshim_plan_owned(segment->share.length, exchange->plan->peers, share, (uint32_t)peer,
                         &range.begin, &range.length);
    return range;
}

struct cshim_range cshim_segment_part(const struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment, int from, int to)
{
    const struct cshim_plan *plan = exchange->plan;
    if ((plan->schedule->parts_to == CSHIM_TO_ROOT && (uint32_t)to != plan->root) ||
        (plan->schedule->root_gives && (uint32_t)from != plan->root))
        return (struct cshim_range){0, 0};
    if (plan->collective == CSHIM_ALLTOALL && from == exchange->rank)
        return block_chunk(exchange, segment, exchange->communicator->sent_begins, to);
    if (plan->collective == CSHIM_ALLTOALL)
        return cshim_segment_owned(exchange, segment, from);
    return cshim_segment_owned(exchange, segment,
                               plan->schedule->parts_to == CSHIM_TO_OWNER ? to : from);
}

const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, uint64_t element)
{
    const uint64_t place = segment->share.begin + element - exchange->source.begin;
    return segment->stage != NULL ? segment->stage + element * exchange->element_bytes
                                  : exchange->input + place * exchange->element_bytes;
}

/* In place, only elements that have been encoded lie before the place of a result. */
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element)
{
    const uint64_t place = segment->share.begin + element - exchange->result.begin;
    return segment->stage != NULL ? segment->stage + element * exchange->element_bytes
                                  : exchange->output + place * exchange->element_bytes;
}

/* The place of the message that `rank` has in a transfer with a peer, from the segment's first. */
static uint64_t place_of(const struct cshim_plan *plan, int rank, enum cshim_transfer transfer,
                         int peer)
{
    const bool is_for_owner = plan->schedule->parts_to == CSHIM_TO_OWNER;
    uint64_t index = (uint64_t)peer;
    if (transfer == CSHIM_RECEIVE_SUMS || transfer == CSHIM_SEND_SUMS)
        index += plan->peers;
    else if (transfer == CSHIM_SEND_PARTS && is_for_owner && peer != rank)
        index += 2 * (uint64_t)plan->peers;
    else if (transfer == CSHIM_SEND_PARTS)
        index = (uint64_t)rank;
    return index * plan->piece_bytes;
}

uint8_t *cshim_segment_piece(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer transfer,
                             int peer)
{
    return segment->scratch + place_of(exchange->plan, exchange->rank, transfer, peer);
}

/* A sum has one place for all receivers. */
uint64_t cshim_segment_place_at(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_transfer transfer,
                                int peer)
{
    const bool is_part = transfer == CSHIM_RECEIVE_PARTS;
    return (uint64_t)(segment->scratch - exchange->communicator->scratch) +
           place_of(exchange->plan, peer, is_part ? CSHIM_SEND_PARTS : CSHIM_SEND_SUMS,
                    is_part ? exchange->rank : peer);
}
