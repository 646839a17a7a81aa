/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the exchange: one segment in flight, its messages and its stages. exchange.c runs the
 * stages of several segments at once; stages.c, messages.c and segment.c are below it, in this
 * order. Not thread-safe: an exchange is carried on by one thread at a time.
 */
#ifndef CSHIM_MPI_SEGMENT_H
#define CSHIM_MPI_SEGMENT_H

#include "shim/mpi/internal.h"

/* A segment in flight: where it lies, its scratch and its requests. Owns nothing; made anew for
 * each stage. */
struct cshim_segment {
    uint64_t index;
    struct cshim_range whole; /* of the caller's elements */
    struct cshim_range share; /* what is exchanged with the peers: all but in hierarchical */
    uint8_t *scratch;         /* pieces of plan->piece_bytes each */
    uint8_t *stage;           /* hierarchical: the share's elements; else NULL */
    MPI_Request *requests;    /* CSHIM_MESSAGE_KINDS * plan->peers */
};

static inline bool cshim_is_gathered(const struct cshim_exchange *exchange)
{
    return exchange->plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT;
}

static inline bool cshim_is_scattered(const struct cshim_exchange *exchange)
{
    return exchange->plan->collective == CSHIM_REDUCE_SCATTER;
}

/* segment.c: the segment of an index, and its place in the scratch, which it shares with those
 * CSHIM_SEGMENTS_IN_FLIGHT before and after it. */
struct cshim_segment cshim_segment_at(const struct cshim_exchange *exchange, uint64_t index);
/* Whether a peer gets the sums of whole segments. */
bool cshim_takes_sums(const struct cshim_exchange *exchange, int peer);
/* The part of a share that a peer adds up, maybe none; all of it where parts are gathered. Begins
 * within the share. */
struct cshim_range cshim_segment_owned(const struct cshim_exchange *exchange,
                                       const struct cshim_segment *segment, int peer);
/* Where an element of the share is read from, and where its sum is written to. */
const uint8_t *cshim_segment_source(const struct cshim_exchange *exchange,
                                    const struct cshim_segment *segment, uint64_t element);
uint8_t *cshim_segment_target(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, uint64_t element);
/* Where the message of a kind from or to a peer lies, of up to plan->piece_bytes. The own rank's of
 * CSHIM_RECEIVE_PARTS is what it would have sent itself, and its CSHIM_RECEIVE_REDUCED what it
 * sends. */
uint8_t *cshim_segment_piece(const struct cshim_exchange *exchange,
                             const struct cshim_segment *segment, enum cshim_transfer kind,
                             int peer);

/* messages.c: writes the header of a message with so many elements. */
void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message step,
                                uint64_t elements, uint8_t *message);
/* Takes the sender's error over. Ends the job if the message is of another call. */
void cshim_message_check_header(struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message step,
                                uint64_t elements, const uint8_t *message, int from);
/* Start a message of so many elements; a message that is sent is counted. Return an MPI error. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer kind, int from, uint64_t elements);
int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer kind, const uint8_t *message, int to, uint64_t elements);
/* Whether all messages of a kind have ended; waits for that unless the exchange is nonblocking.
 * Returns an MPI error: that of the first message which has one. */
int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer kind, bool *done);

/* stages.c: receives are posted, parts encoded and sent; the parts have come, and are added up and
 * the sum sent on; the sums have come, and are decoded. The last two say whether the stage is done:
 * a nonblocking exchange takes one that is not again. They return an MPI error. */
int cshim_segment_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment);
int cshim_segment_reduce(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         bool *done);
int cshim_segment_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         bool *done);

#endif
