/* SPDX-License-Identifier: Apache-2.0 */
/* Where a segment lies: which elements it has, who of the peers adds up and receives which of
 * them, where its messages are in the scratch, and what is done with it. */
#ifndef CSHIM_HOST_SEGMENT_H
#define CSHIM_HOST_SEGMENT_H

#include "shim/host/exchange.h"

/* The messages that a segment has with each peer of a row, and then of a column. */
enum cshim_transfer {
    CSHIM_RECEIVE_PARTS,
    CSHIM_RECEIVE_SUMS,
    CSHIM_SEND_PARTS,
    CSHIM_SEND_SUMS,
    CSHIM_ROW_TRANSFERS,
    CSHIM_RECEIVE_COLUMN_PARTS = CSHIM_ROW_TRANSFERS,
    CSHIM_RECEIVE_COLUMN_SUMS,
    CSHIM_SEND_COLUMN_PARTS,
    CSHIM_SEND_COLUMN_SUMS,
    CSHIM_TRANSFERS
};

/* Whose messages a transfer is of. */
static inline enum cshim_level cshim_transfer_level(enum cshim_transfer transfer)
{
    return transfer < CSHIM_ROW_TRANSFERS ? CSHIM_ROW : CSHIM_COLUMN;
}

/* A level's transfer that is, in the row, this one. */
static inline enum cshim_transfer cshim_transfer_of(enum cshim_level level,
                                                    enum cshim_transfer in_row)
{
    return level == CSHIM_ROW ? in_row : in_row + CSHIM_ROW_TRANSFERS;
}

static inline enum cshim_message cshim_transfer_kind(enum cshim_transfer transfer)
{
    return (enum cshim_message)(transfer % CSHIM_ROW_MESSAGES +
                                CSHIM_ROW_MESSAGES * cshim_transfer_level(transfer));
}

/* Requests (transport.h) of all segments in flight between so many peers. One transfer after the
 * other has those of all slots, and each of these one for each place of the longest row or column.
 * In a grid of p peers twice as many transfers have at most p / 2 + 1 places. */
#define CSHIM_REQUESTS(peers)                                                                      \
    (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_ROW_TRANSFERS * ((unsigned)(peers) + 2))

/* A segment in flight. Owns nothing; it is made anew for each stage. */
struct cshim_segment {
    uint64_t index;
    struct cshim_range whole; /* of the call's elements */
    struct cshim_range share; /* what the peers exchange: in hierarchical this rank's share of it */
    uint8_t *scratch;         /* pieces of plan->piece_bytes each */
    uint8_t *stage; /* by nodes: the share's elements, and behind them blocks to add; else NULL */
    unsigned slot;  /* of those in flight */
};

/* The segment of an index. It shares its place in the scratch with the segments
 * CSHIM_SEGMENTS_IN_FLIGHT before and after it. */
struct cshim_segment cshim_segment_at(const struct cshim_exchange *exchange, uint64_t index);

/* The elements of a share that a peer of the row adds up, or its column in a grid, maybe none;
 * where nobody does, those that it gives or passes on. By blocks the elements are counted from the
 * call's first, else from the share's. */
struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer);
/* Of these the piece that a place of that column owns: all where there is no grid. */
struct cshim_range cshim_segment_piece_owned(const struct cshim_exchange *exchange,
                                             const struct cshim_segment *segment, int peer,
                                             uint32_t place);
/* The elements of the message that a transfer has with a peer, maybe none; with this rank itself,
 * what it would send to itself. */
struct cshim_range cshim_segment_message(const struct cshim_exchange *exchange,
                                         const struct cshim_segment *segment,
                                         enum cshim_transfer transfer, int peer);

/* The chunk that a segment has of the block of a local rank of a node. */
struct cshim_range cshim_segment_block(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int node,
                                       int local_rank);

/* Where an element of the share is read from, and where its result is written to. By blocks it is
 * the first of the chunk of a peer. */
const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, int peer,
                                    uint64_t element);
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element);

/* Where the message of a transfer with a peer lies, of up to plan->piece_bytes, in a column up to
 * plan->column_bytes. The place that this rank itself has among the received parts holds what it
 * would have sent to itself, unless that is added at home. */
uint8_t *cshim_segment_place(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer transfer,
                             int peer);

/* Where the message that this rank receives from a peer lies in that peer's scratch, from the begin
 * of that: both have the same plan, without a grid. */
uint64_t cshim_segment_place_at(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_transfer transfer,
                                int peer);

/* A local rank's share of a segment: a part of the segment in hierarchical; none for ranks beyond
 * the plan's shares. */
struct cshim_range cshim_segment_share(const struct cshim_exchange *exchange,
                                       const struct cshim_range *segment, int local_rank);

#endif
