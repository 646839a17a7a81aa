/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a segment's scratch, in slots of plan->piece_bytes; n: number of peers, or of the row's
 * peers in a grid:
 *
 *   broadcast in one_shot  | the root's elements |
 *   one_shot, allgather    | contributions of peers 0 .. n-1 |
 *   others                 | contributions received | reduced chunks | contributions sent |, n each
 *
 * In a grid the same areas follow for the column, in slots of plan->column_bytes. In hierarchical
 * the stage is at the end. */
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
        .slot = slot,
    };
    if (plan->schedule->division == CSHIM_BLOCKS)
        segment.whole = (struct cshim_range){0, plan->count};
    segment.share = segment.whole;
    if (plan->schedule->staged)
        segment.stage = segment.scratch + plan->slot_bytes - plan->stage_bytes;
    if (plan->schedule->staged && plan->schedule->division != CSHIM_BLOCKS)
        segment.share = cshim_segment_share(exchange, &segment.whole,
                                            exchange->communicator->layout.local_rank);
    return segment;
}

/* Returns a segment's chunk of a rank's block. */
static struct cshim_range block_chunk(const struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment, const uint64_t *begins,
                                      int rank)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t length = begins[rank + 1] - begins[rank];
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    const uint64_t done = segment->index * chunk;
    if (done >= length)
        return (struct cshim_range){begins[rank], 0};
    return (struct cshim_range){begins[rank] + done, length - done < chunk ? length - done : chunk};
}

struct cshim_range cshim_segment_block(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int node,
                                       int local_rank)
{
    const struct cshim_layout *layout = &exchange->communicator->layout;
    return block_chunk(exchange, segment, exchange->communicator->block_begins,
                       layout->rank_at[local_rank * (int)layout->nodes + node]);
}

/* Returns the index of this rank's share of a segment. */
static uint32_t share_of(const struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    return segment->stage != NULL ? (uint32_t)exchange->communicator->layout.local_rank : 0;
}

struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer)
{
    struct cshim_range range = {0, segment->share.length};
    const uint32_t columns = exchange->plan->grid.columns;
    if (exchange->plan->schedule->division == CSHIM_BLOCKS && segment->stage != NULL)
        return cshim_segment_block(exchange, segment, peer,
                                   exchange->communicator->layout.local_rank);
    if (exchange->plan->schedule->division == CSHIM_BLOCKS)
        return block_chunk(exchange, segment, exchange->communicator->block_begins, peer);
    if ((uint32_t)peer >= columns) /* last peer of a longer row: owns nothing */
        return (struct cshim_range){0, 0};
    if (exchange->plan->schedule->division == CSHIM_CHUNKS)
        cshim_plan_owned(segment->share.length, columns, share_of(exchange, segment),
                         (uint32_t)peer, &range.begin, &range.length);
    return range;
}

struct cshim_range cshim_segment_piece_owned(const struct cshim_exchange *exchange,
                                             const struct cshim_segment *segment, int peer,
                                             uint32_t place)
{
    struct cshim_range piece = {0, 0};
    if (exchange->plan->grid.rows == 1)
        return cshim_segment_owned(exchange, segment, peer);
    if ((uint32_t)peer < exchange->plan->grid.columns)
        cshim_grid_piece(&exchange->plan->grid, segment->share.length, share_of(exchange, segment),
                         (uint32_t)peer, place, &piece.begin, &piece.length);
    return piece;
}

/* Returns the elements of the contribution that one peer of the row sends to another; may be empty.
 */
static struct cshim_range contribution(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int from, int to)
{
    const struct cshim_plan *plan = exchange->plan;
    if ((plan->schedule->parts_to == CSHIM_TO_ROOT && (uint32_t)to != plan->root) ||
        (plan->schedule->root_gives && (uint32_t)from != plan->root))
        return (struct cshim_range){0, 0};
    if (plan->collective == CSHIM_ALLTOALL && from == exchange->groups[CSHIM_ROW].rank)
        return block_chunk(exchange, segment, exchange->communicator->sent_begins, to);
    if (plan->collective == CSHIM_ALLTOALL)
        return cshim_segment_owned(exchange, segment, from);
    return cshim_segment_owned(exchange, segment,
                               plan->schedule->parts_to == CSHIM_TO_OWNER ? to : from);
}

/* The outside owner of a column (shim/core/grid.h) contributes nothing to it. */
struct cshim_range cshim_segment_message(const struct cshim_exchange *exchange,
                                         const struct cshim_segment *segment,
                                         enum cshim_transfer transfer, int peer)
{
    const enum cshim_dimension dimension = cshim_transfer_dimension(transfer);
    const int rank = exchange->groups[dimension].rank;
    const bool sends = transfer % CSHIM_ROW_TRANSFERS >= CSHIM_SEND_PARTS;
    const bool is_part = transfer % CSHIM_ROW_MESSAGES == CSHIM_MESSAGE_PARTS;
    const int from = sends ? rank : peer, to = sends ? peer : rank;
    if (dimension == CSHIM_ROW)
        return is_part ? contribution(exchange, segment, from, to)
                       : cshim_segment_owned(exchange, segment, from);
    if (is_part && (uint32_t)from == exchange->plan->grid.rows)
        return (struct cshim_range){0, 0};
    return cshim_segment_piece_owned(exchange, segment, (int)exchange->column,
                                     (uint32_t)(is_part ? to : from));
}

const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, int peer, uint64_t element)
{
    const uint64_t place = segment->share.begin + element - exchange->source.begin;
    if (segment->stage == NULL)
        return exchange->input + place * exchange->element_bytes;
    if (exchange->plan->schedule->division == CSHIM_BLOCKS)
        element = (uint64_t)exchange->communicator->share_begins[peer];
    return segment->stage + element * exchange->element_bytes;
}

/* With MPI_IN_PLACE, a result is written only over elements that are already encoded. */
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element)
{
    const uint64_t place = segment->share.begin + element - exchange->result.begin;
    return cshim_schedule_has(exchange->plan->schedule, CSHIM_STEP_GATHER_INSIDE)
               ? segment->stage + element * exchange->element_bytes
               : exchange->output + place * exchange->element_bytes;
}

/* Returns the offset of a message in a segment's scratch: of the transfer between `rank` and
 * `peer`, two indices of a row or column. */
static uint64_t place_of(const struct cshim_plan *plan, int rank, enum cshim_transfer transfer,
                         int peer)
{
    const bool is_for_owner = plan->schedule->parts_to == CSHIM_TO_OWNER;
    const enum cshim_dimension dimension = cshim_transfer_dimension(transfer);
    const uint64_t longest_row = plan->grid.columns + (plan->peers % plan->grid.rows != 0);
    const uint64_t places = dimension == CSHIM_ROW ? longest_row : cshim_grid_depth(&plan->grid);
    const uint64_t bytes = dimension == CSHIM_ROW ? plan->piece_bytes : plan->column_bytes;
    const enum cshim_transfer in_row = transfer % CSHIM_ROW_TRANSFERS;
    uint64_t first = 0, index = (uint64_t)peer;
    if (dimension == CSHIM_COLUMN)
        first = plan->schedule->pieces_per_peer * longest_row * plan->piece_bytes;
    if (in_row == CSHIM_RECEIVE_SUMS || in_row == CSHIM_SEND_SUMS)
        index += places;
    else if (plan->schedule->root_gives && !is_for_owner)
        index = 0;
    else if (in_row == CSHIM_SEND_PARTS && is_for_owner && peer != rank)
        index += 2 * places;
    else if (in_row == CSHIM_SEND_PARTS)
        index = (uint64_t)rank;
    return first + index * bytes;
}

uint8_t *cshim_segment_place(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer transfer,
                             int peer)
{
    const int rank = exchange->groups[cshim_transfer_dimension(transfer)].rank;
    return segment->scratch + place_of(exchange->plan, rank, transfer, peer);
}

/* A reduced chunk has one slot for all receivers. */
uint64_t cshim_segment_place_at(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_transfer transfer,
                                int peer)
{
    const bool is_part = transfer == CSHIM_RECEIVE_PARTS;
    return (uint64_t)(segment->scratch - exchange->communicator->scratch) +
           place_of(exchange->plan, peer, is_part ? CSHIM_SEND_PARTS : CSHIM_SEND_SUMS,
                    is_part ? exchange->groups[CSHIM_ROW].rank : peer);
}
