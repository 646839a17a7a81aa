/* SPDX-License-Identifier: Apache-2.0 */
/* The three stages of a segment: its parts are encoded and sent, the own chunk is added up, the
 * sums are decoded.
 */
#include "shim/mpi/segment.h"

/* The options of an encoding that begins at an element of the share, or NULL. */
static const struct cshim_encoding *options(const struct cshim_exchange *exchange,
                                            const struct cshim_segment *segment,
                                            enum cshim_message step, uint64_t element,
                                            struct cshim_encoding *encoding)
{
    const struct cshim_residual *residual = exchange->residual;
    if (!exchange->has_options)
        return NULL;
    *encoding = (struct cshim_encoding){
        .stochastic = exchange->plan->rule->stochastic,
        .key = exchange->keys[step],
        .first = segment->share.begin + element,
    };
    if (residual != NULL)
        encoding->residual =
            (step == CSHIM_MESSAGE_PARTS ? residual->sent : residual->reduced) + encoding->first;
    return encoding;
}

/* Encodes the part of this rank's share that `owner` owns, header first. */
static void encode_part(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        int owner, uint8_t *message)
{
    const struct cshim_range part = cshim_segment_owned(exchange, segment, owner);
    struct cshim_encoding encoding;
    cshim_message_write_header(exchange, segment, CSHIM_MESSAGE_PARTS, part.length, message);
    cshim_encode_with(exchange->plan->codec, exchange->plan->dtype,
                      cshim_segment_source(exchange, segment, part.begin), part.length,
                      options(exchange, segment, CSHIM_MESSAGE_PARTS, part.begin, &encoding),
                      message + CSHIM_HEADER_BYTES);
}

static int post_receives(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const struct cshim_range own = cshim_segment_owned(exchange, segment, rank);
    int status = MPI_SUCCESS;
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int from = (rank + ranks - step) % ranks;
        const struct cshim_range theirs = cshim_segment_owned(exchange, segment, from);
        if (own.length > 0)
            status =
                cshim_message_receive(exchange, segment, CSHIM_RECEIVE_PARTS, from, own.length);
        if (status == MPI_SUCCESS && !cshim_is_gathered(exchange) &&
            cshim_takes_sums(exchange, rank) && theirs.length > 0)
            status = cshim_message_receive(exchange, segment, CSHIM_RECEIVE_REDUCED, from,
                                           theirs.length);
    }
    return status;
}

/* First stage: receives are posted, parts encoded and sent, starting behind the own rank so that
 * not all send to the same one. */
int cshim_segment_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    double mark = cshim_seconds();
    for (size_t i = 0; i < (size_t)CSHIM_MESSAGE_KINDS * (size_t)ranks; i++)
        segment->requests[i] = MPI_REQUEST_NULL;
    int status = post_receives(exchange, segment);
    if (cshim_is_gathered(exchange)) {
        const int taker = cshim_takes_sums(exchange, rank) ? rank : (int)exchange->plan->root;
        encode_part(exchange, segment, taker,
                    cshim_segment_piece(exchange, segment, CSHIM_SEND_PARTS, rank));
    }
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        uint8_t *message = cshim_segment_piece(exchange, segment, CSHIM_SEND_PARTS, to);
        const struct cshim_range theirs = cshim_segment_owned(exchange, segment, to);
        if (theirs.length == 0)
            continue;
        if (!cshim_is_gathered(exchange))
            encode_part(exchange, segment, to, message);
        mark = cshim_phase_end(exchange, CSHIM_TRACE_ENCODE, mark);
        status =
            cshim_message_send(exchange, segment, CSHIM_SEND_PARTS, message, to, theirs.length);
        mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    }
    if (!cshim_is_gathered(exchange))
        encode_part(exchange, segment, rank,
                    cshim_segment_piece(exchange, segment, CSHIM_SEND_PARTS, rank));
    cshim_phase_end(exchange, CSHIM_TRACE_ENCODE, mark);
    return status;
}

/* Adds the parts of the own chunk: into the output where it is the result, else into an encoded
 * sum. */
static void reduce_parts(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         const struct cshim_range *own)
{
    const struct cshim_plan *plan = exchange->plan;
    const int rank = exchange->rank;
    const void **parts = exchange->comm->parts;
    struct cshim_encoding encoding;
    uint8_t *reduced = cshim_segment_piece(exchange, segment, CSHIM_SEND_REDUCED, rank);
    for (int from = 0; from < exchange->ranks; from++) {
        const uint8_t *message = cshim_segment_piece(exchange, segment, CSHIM_RECEIVE_PARTS, from);
        if (from != rank)
            cshim_message_check_header(exchange, segment, CSHIM_MESSAGE_PARTS, own->length, message,
                                       from);
        parts[from] = message + CSHIM_HEADER_BYTES;
    }
    if (cshim_is_gathered(exchange) || cshim_is_scattered(exchange)) {
        cshim_reduce(plan->codec, plan->dtype, parts, plan->peers, own->length,
                     cshim_segment_target(exchange, segment, own->begin), NULL);
        return;
    }
    cshim_message_write_header(exchange, segment, CSHIM_MESSAGE_SUMS, own->length, reduced);
    cshim_reduce_with(plan->codec, plan->dtype, parts, plan->peers, own->length, NULL,
                      reduced + CSHIM_HEADER_BYTES,
                      options(exchange, segment, CSHIM_MESSAGE_SUMS, own->begin, &encoding));
}

/* Sends the encoded sum to those who take it. */
static int send_sums(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                     uint64_t elements)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    int status = MPI_SUCCESS;
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        if (cshim_takes_sums(exchange, to))
            status = cshim_message_send(
                exchange, segment, CSHIM_SEND_REDUCED,
                cshim_segment_piece(exchange, segment, CSHIM_SEND_REDUCED, rank), to, elements);
    }
    return status;
}

/* Second stage: the parts have come; the owner adds them and sends the sum to all. */
int cshim_segment_reduce(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         bool *done)
{
    const struct cshim_range own = cshim_segment_owned(exchange, segment, exchange->rank);
    double mark = cshim_seconds();
    int status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_PARTS, done);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    if (status != MPI_SUCCESS || !*done || own.length == 0)
        return status;
    reduce_parts(exchange, segment, &own);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_DECODE, mark);
    if (!cshim_is_gathered(exchange))
        status = send_sums(exchange, segment, own.length);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    return status;
}

/* Decodes the reduced chunks of all, the own one too. */
static void decode_chunks(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = exchange->plan;
    for (int from = 0; from < exchange->ranks; from++) {
        const uint8_t *message =
            cshim_segment_piece(exchange, segment, CSHIM_RECEIVE_REDUCED, from);
        const struct cshim_range theirs = cshim_segment_owned(exchange, segment, from);
        if (theirs.length == 0)
            continue;
        if (from != exchange->rank)
            cshim_message_check_header(exchange, segment, CSHIM_MESSAGE_SUMS, theirs.length,
                                       message, from);
        cshim_decode(plan->codec, plan->dtype, message + CSHIM_HEADER_BYTES, theirs.length,
                     cshim_segment_target(exchange, segment, theirs.begin));
    }
}

/* Whether all that was sent is gone. */
static int complete_sends(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          bool *done)
{
    const int status = cshim_message_complete(exchange, segment, CSHIM_SEND_PARTS, done);
    if (status != MPI_SUCCESS || !*done)
        return status;
    return cshim_message_complete(exchange, segment, CSHIM_SEND_REDUCED, done);
}

/* Last stage: the reduced chunks have come; what was sent is gone. Whoever waits decodes while the
 * last is sent; a nonblocking exchange comes here several times, and decodes once. */
int cshim_segment_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         bool *done)
{
    double mark = cshim_seconds();
    int status = MPI_SUCCESS;
    *done = true;
    if (exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    if (status == MPI_SUCCESS && *done)
        status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_REDUCED, done);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    if (status != MPI_SUCCESS || !*done)
        return status;
    if (!cshim_is_gathered(exchange) && cshim_takes_sums(exchange, exchange->rank))
        decode_chunks(exchange, segment);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_DECODE, mark);
    if (!exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    return status;
}
