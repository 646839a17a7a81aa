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

/* steps.c: the steps of a schedule on one segment, in stages. Between the stages its messages
 * travel, while other segments are worked on. All functions return an error of the transport. */

/* Encode and exchange: receives are posted, then parts are encoded and sent. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Sum and collect: a row's or column's parts have come; the owner adds them and sends the sum on.
 * *done says whether the stage is over: a nonblocking exchange takes a stage again that is not. */
int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_level level, bool *done);
/* Forward: the sums of a column have come, and go along the row. */
int cshim_steps_forward(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        bool *done);
/* Decode: the sums have come, and what was sent is gone. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done);

/* Whether ranks of a node may read each other's messages of a plan in the sender's scratch. */
bool cshim_steps_may_share(const struct cshim_plan *plan);
/* Behind all segments of an exchange that does: nobody reads this rank's scratch any more. First it
 * `begins`, then *done says whether that is so. */
int cshim_steps_close(struct cshim_exchange *exchange, bool begins, bool *done);

/* inside.c: the ranks of a node add the elements of a segment, and gather the job's sums of all
 * shares. Around the stages above, in hierarchical. They do so in memory that they share;
 * where they have none, by messages, with the same sums. */
int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Whether that memory may be used, which is the same on all ranks of the node. The first of the
 * functions above finds out whether all of them have it. */
bool cshim_steps_may_share_inside(const struct cshim_exchange *exchange);
/* Behind all segments: nobody reads this rank's scratch any more. */
int cshim_steps_close_inside(struct cshim_exchange *exchange);

#endif
