/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of a segment: its elements, which peer owns and receives which of them, and where its
 * messages lie in the scratch. Pure functions of plan, layout and rank; they allocate nothing.
 * PARTS are contributions, SUMS are reduced chunks. */
#ifndef CSHIM_HOST_SEGMENT_H
#define CSHIM_HOST_SEGMENT_H

#include "shim/host/exchange.h"

/* Messages that a segment has with each peer of the row, then of the column. */
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

/* Returns the dimension of the grid that a transfer belongs to. */
static inline enum cshim_dimension cshim_transfer_dimension(enum cshim_transfer transfer)
{
    return transfer < CSHIM_ROW_TRANSFERS ? CSHIM_ROW : CSHIM_COLUMN;
}

/* Returns the transfer in another dimension that corresponds to `in_row`. */
static inline enum cshim_transfer cshim_transfer_of(enum cshim_dimension dimension,
                                                    enum cshim_transfer in_row)
{
    return dimension == CSHIM_ROW ? in_row : in_row + CSHIM_ROW_TRANSFERS;
}

/* Returns the kind of a transfer's messages. */
static inline enum cshim_message cshim_transfer_kind(enum cshim_transfer transfer)
{
    return (enum cshim_message)(transfer % CSHIM_ROW_MESSAGES +
                                CSHIM_ROW_MESSAGES * cshim_transfer_dimension(transfer));
}

/* Number of requests (transport.h) of all segments in flight between `peers` peers. The requests
 * are ordered by transfer, then slot, then index in the row or column. A grid of p peers has twice
 * the transfers, but at most p / 2 + 1 indices. */
#define CSHIM_REQUESTS(peers)                                                                      \
    (CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_ROW_TRANSFERS * ((unsigned)(peers) + 2))

/* A segment in flight. Computed again for each stage; owns nothing. */
struct cshim_segment {
    uint64_t index;
    struct cshim_range whole; /* range of the call's elements */
    struct cshim_range share; /* what peers exchange; hierarchical: a share of `whole` */
    uint8_t *scratch;         /* slots of plan->piece_bytes each */
    uint8_t *stage; /* hierarchical: the share's elements, followed by blocks to add; else NULL */
    unsigned slot;  /* index modulo CSHIM_SEGMENTS_IN_FLIGHT */
};

/* Returns segment `index`. Its scratch is that of the segments CSHIM_SEGMENTS_IN_FLIGHT before and
 * after it. */
struct cshim_segment cshim_segment_at(const struct cshim_exchange *exchange, uint64_t index);

/* Returns the elements of the share that a peer of the row reduces (in a grid: its column), or
 * without reduction those that it contributes or forwards; may be empty. Offsets are from the
 * call's first element with blocks, otherwise from the share's. */
struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer);
/* Returns the piece of these elements that index `place` of the column owns; without a grid all of
 * them. */
struct cshim_range cshim_segment_piece_owned(const struct cshim_exchange *exchange,
                                             const struct cshim_segment *segment, int peer,
                                             uint32_t place);
/* Returns the elements of a transfer's message with a peer; may be empty. With this rank itself:
 * what it would send to itself. */
struct cshim_range cshim_segment_message(const struct cshim_exchange *exchange,
                                         const struct cshim_segment *segment,
                                         enum cshim_transfer transfer, int peer);

/* Returns a segment's chunk of the block of a local rank of a node. */
struct cshim_range cshim_segment_block(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int node,
                                       int local_rank);

/* Returns the address from which element `element` of the share is read. With blocks in
 * hierarchical: of the first element of a peer's chunk. */
const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, int peer,
                                    uint64_t element);
/* Returns the address to which element `element` of the share is written. */
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element);

/* Returns the address of a transfer's message with a peer: up to plan->piece_bytes, in a column up
 * to plan->column_bytes. This rank's own index has what it would have sent to itself, unless it
 * adds that from the input. */
uint8_t *cshim_segment_place(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer transfer,
                             int peer);

/* Returns the offset, in a peer's scratch, of the message that this rank receives from it. Both
 * have the same plan, without a grid. */
uint64_t cshim_segment_place_at(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_transfer transfer,
                                int peer);

/* Returns a local rank's share of a segment; empty for ranks beyond plan->shares. */
struct cshim_range cshim_segment_share(const struct cshim_exchange *exchange,
                                       const struct cshim_range *segment, int local_rank);

#endif
