/* SPDX-License-Identifier: Apache-2.0 */
/* The reissued all-reduce: allgather (one shot) and two_shot, in segments of which several are in
 * flight, so that encoding, wire, reducing and decoding overlap.
 *
 * two_shot, per segment: every rank encodes one chunk for each rank and sends it there; the chunk's
 * owner decodes and adds the parts in rank order, encodes the sum once, sends it to all, and
 * decodes what it sent like everybody else. allgather: every rank sends its whole segment to all,
 * and all add the parts in rank order.
 */
#include "shim/mpi/header.h"
#include "shim/mpi/internal.h"

enum step { STEP_PARTS = 0, STEP_REDUCED = 1, STEPS };

/* The kinds of request a segment has; each has one place per rank. */
enum kind { RECEIVE_PARTS, RECEIVE_REDUCED, SEND_PARTS, SEND_REDUCED, KINDS };

/* A segment begins, is reduced this many segments later, and finishes after that. */
#define REDUCE_LAG 1u
#define FINISH_LAG (CSHIM_SEGMENTS_IN_FLIGHT - 1)

/* A segment in flight: where it lies, its scratch and its requests. */
struct segment {
    uint64_t index;
    uint64_t begin;   /* element */
    uint64_t length;  /* elements */
    uint8_t *scratch; /* pieces of plan->piece_bytes each */
    MPI_Request *requests;
};

static bool is_two_shot(const struct cshim_exchange *exchange)
{
    return exchange->plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT;
}

static struct segment segment_at(const struct cshim_exchange *exchange, uint64_t index)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t slot = index % CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t begin = index * plan->segment;
    return (struct segment){
        .index = index,
        .begin = begin,
        .length = plan->count - begin < plan->segment ? plan->count - begin : plan->segment,
        .scratch = exchange->comm->scratch + slot * plan->slot_bytes,
        .requests = exchange->comm->requests + slot * KINDS * plan->ranks,
    };
}

/* The part of a segment that `rank` owns: all of it in an allgather. */
static void owned(const struct cshim_exchange *exchange, const struct segment *segment, int rank,
                  uint64_t *begin, uint64_t *length)
{
    *begin = 0;
    *length = segment->length;
    if (is_two_shot(exchange))
        cshim_plan_chunk(segment->length, exchange->plan->ranks, (uint32_t)rank, begin, length);
    *begin += segment->begin;
}

/* Scratch of a segment: parts received from each rank (own: what it would have sent itself), then
 * reduced chunks of each rank, then parts to send to each rank. An allgather sends its own part. */
static uint8_t *piece(const struct cshim_exchange *exchange, const struct segment *segment,
                      enum kind kind, int rank)
{
    const uint64_t ranks = exchange->plan->ranks;
    uint64_t index = (uint64_t)rank;
    if (kind == RECEIVE_REDUCED || kind == SEND_REDUCED)
        index += ranks;
    else if (kind == SEND_PARTS && is_two_shot(exchange) && rank != exchange->comm->rank)
        index += 2 * ranks;
    else if (kind == SEND_PARTS)
        index = (uint64_t)exchange->comm->rank;
    return segment->scratch + index * exchange->plan->piece_bytes;
}

static void write_header(const struct cshim_exchange *exchange, const struct segment *segment,
                         enum step step, uint64_t elements, uint8_t *message)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_header header = {
        .magic = CSHIM_HEADER_MAGIC,
        .sequence = exchange->sequence,
        .count = plan->count,
        .segment = (uint32_t)segment->index,
        .elements = (uint32_t)elements,
        .codec = (uint8_t)plan->codec,
        .dtype = (uint8_t)plan->dtype,
        .algorithm = (uint8_t)plan->algorithm,
        .step = (uint8_t)step,
    };
    memcpy(message, &header, sizeof header);
}

/* Ranks that disagree about a call are an erroneous program: the job ends, both views shown. */
static void check_header(const struct cshim_exchange *exchange, const struct segment *segment,
                         enum step step, uint64_t elements, const uint8_t *message, int from)
{
    struct cshim_header want, got;
    write_header(exchange, segment, step, elements, (uint8_t *)&want);
    memcpy(&got, message, sizeof got);
    if (memcmp(&want, &got, sizeof got) == 0)
        return;
    cshim_log(CSHIM_LOG_ERROR,
              "MPI_Allreduce does not match between ranks: rank %d here: call %u, %llu x %s in %s "
              "by %s, segment %u; rank %d: magic %#x, call %u, %llu x %s in %s by %s, segment %u",
              exchange->comm->rank, want.sequence, (unsigned long long)want.count,
              cshim_dtype_name((enum cshim_dtype)want.dtype),
              cshim_codec_name((enum cshim_codec_id)want.codec),
              cshim_algorithm_name((enum cshim_algorithm)want.algorithm), want.segment, from,
              got.magic, got.sequence, (unsigned long long)got.count,
              cshim_dtype_name((enum cshim_dtype)got.dtype),
              cshim_codec_name((enum cshim_codec_id)got.codec),
              cshim_algorithm_name((enum cshim_algorithm)got.algorithm), got.segment);
    PMPI_Abort(exchange->comm->comm, 1);
}

static int message_bytes(const struct cshim_exchange *exchange, uint64_t elements)
{
    return (int)(CSHIM_HEADER_BYTES +
                 cshim_encoded_bytes(exchange->plan->codec, exchange->plan->dtype, elements));
}

static MPI_Request *request(const struct cshim_exchange *exchange, const struct segment *segment,
                            enum kind kind, int rank)
{
    return &segment->requests[(uint32_t)kind * exchange->plan->ranks + (uint32_t)rank];
}

static int receive(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind,
                   int from, uint64_t elements)
{
    return PMPI_Irecv(piece(exchange, segment, kind, from), message_bytes(exchange, elements),
                      MPI_BYTE, from, kind == RECEIVE_PARTS ? STEP_PARTS : STEP_REDUCED,
                      exchange->comm->comm, request(exchange, segment, kind, from));
}

static int send(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind,
                const uint8_t *message, int to, uint64_t elements)
{
    const int bytes = message_bytes(exchange, elements);
    exchange->figures.bytes_wire += (uint64_t)bytes;
    return PMPI_Isend(message, bytes, MPI_BYTE, to, kind == SEND_PARTS ? STEP_PARTS : STEP_REDUCED,
                      exchange->comm->comm, request(exchange, segment, kind, to));
}

static int wait_all(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind)
{
    return PMPI_Waitall((int)exchange->plan->ranks, request(exchange, segment, kind, 0),
                        MPI_STATUSES_IGNORE);
}

/* Encodes the part of this rank's input that `owner` owns, header first. */
static void encode_part(struct cshim_exchange *exchange, const struct segment *segment, int owner,
                        uint8_t *message)
{
    uint64_t begin, length;
    owned(exchange, segment, owner, &begin, &length);
    write_header(exchange, segment, STEP_PARTS, length, message);
    cshim_encode(exchange->plan->codec, exchange->plan->dtype,
                 exchange->input + begin * exchange->element_bytes, length,
                 message + CSHIM_HEADER_BYTES);
}

static int post_receives(struct cshim_exchange *exchange, const struct segment *segment)
{
    const int rank = exchange->comm->rank, ranks = exchange->comm->ranks;
    uint64_t begin, own_length, length;
    int status = MPI_SUCCESS;
    owned(exchange, segment, rank, &begin, &own_length);
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int from = (rank + ranks - step) % ranks;
        owned(exchange, segment, from, &begin, &length);
        if (own_length > 0)
            status = receive(exchange, segment, RECEIVE_PARTS, from, own_length);
        if (status == MPI_SUCCESS && is_two_shot(exchange) && length > 0)
            status = receive(exchange, segment, RECEIVE_REDUCED, from, length);
    }
    return status;
}

/* First stage: receives are posted, parts encoded and sent, starting behind the own rank so that
 * not all send to the same one. */
static int begin_segment(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    const int rank = exchange->comm->rank, ranks = exchange->comm->ranks;
    const double began = cshim_seconds();
    double sending = 0;
    for (size_t i = 0; i < (size_t)KINDS * (size_t)ranks; i++)
        segment.requests[i] = MPI_REQUEST_NULL;
    int status = post_receives(exchange, &segment);
    if (!is_two_shot(exchange))
        encode_part(exchange, &segment, rank, piece(exchange, &segment, SEND_PARTS, rank));
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        uint8_t *message = piece(exchange, &segment, SEND_PARTS, to);
        uint64_t first, length;
        owned(exchange, &segment, to, &first, &length);
        if (length == 0)
            continue;
        if (is_two_shot(exchange))
            encode_part(exchange, &segment, to, message);
        const double posted = cshim_seconds();
        status = send(exchange, &segment, SEND_PARTS, message, to, length);
        sending += cshim_seconds() - posted;
    }
    if (is_two_shot(exchange))
        encode_part(exchange, &segment, rank, piece(exchange, &segment, SEND_PARTS, rank));
    exchange->figures.seconds_encode += cshim_seconds() - began - sending;
    exchange->figures.seconds_exchange += sending;
    return status;
}

/* Adds the parts of the own chunk (two_shot: into an encoded sum; allgather: into the output). */
static void reduce_parts(struct cshim_exchange *exchange, const struct segment *segment,
                         uint64_t begin, uint64_t length)
{
    const struct cshim_plan *plan = exchange->plan;
    const int rank = exchange->comm->rank;
    const void *parts[plan->ranks];
    uint8_t *reduced = piece(exchange, segment, SEND_REDUCED, rank);
    for (int from = 0; from < exchange->comm->ranks; from++) {
        const uint8_t *message = piece(exchange, segment, RECEIVE_PARTS, from);
        if (from != rank)
            check_header(exchange, segment, STEP_PARTS, length, message, from);
        parts[from] = message + CSHIM_HEADER_BYTES;
    }
    uint8_t *output = exchange->output + begin * exchange->element_bytes;
    if (!is_two_shot(exchange)) {
        cshim_reduce(plan->codec, plan->dtype, parts, plan->ranks, length, output, NULL);
        return;
    }
    write_header(exchange, segment, STEP_REDUCED, length, reduced);
    cshim_reduce(plan->codec, plan->dtype, parts, plan->ranks, length, NULL,
                 reduced + CSHIM_HEADER_BYTES);
}

/* Second stage: the parts have come; the owner adds them and sends the sum to all. */
static int reduce_segment(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    const int rank = exchange->comm->rank, ranks = exchange->comm->ranks;
    uint64_t begin, length;
    double mark = cshim_seconds();
    int status = wait_all(exchange, &segment, RECEIVE_PARTS);
    exchange->figures.seconds_exchange += cshim_seconds() - mark;
    owned(exchange, &segment, rank, &begin, &length);
    if (status != MPI_SUCCESS || length == 0)
        return status;
    mark = cshim_seconds();
    reduce_parts(exchange, &segment, begin, length);
    const double reduced = cshim_seconds();
    for (int step = 1; step < ranks && is_two_shot(exchange) && status == MPI_SUCCESS; step++)
        status = send(exchange, &segment, SEND_REDUCED,
                      piece(exchange, &segment, SEND_REDUCED, rank), (rank + step) % ranks, length);
    exchange->figures.seconds_decode += reduced - mark;
    exchange->figures.seconds_exchange += cshim_seconds() - reduced;
    return status;
}

/* Last stage: the reduced chunks have come and are decoded, the own one too; what was sent is gone.
 */
static int finish_segment(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    const struct cshim_plan *plan = exchange->plan;
    double mark = cshim_seconds();
    int status = wait_all(exchange, &segment, RECEIVE_REDUCED);
    exchange->figures.seconds_exchange += cshim_seconds() - mark;
    mark = cshim_seconds();
    for (int from = 0; is_two_shot(exchange) && from < exchange->comm->ranks; from++) {
        const uint8_t *message = piece(exchange, &segment, RECEIVE_REDUCED, from);
        uint64_t begin, length;
        owned(exchange, &segment, from, &begin, &length);
        if (status != MPI_SUCCESS || length == 0)
            continue;
        if (from != exchange->comm->rank)
            check_header(exchange, &segment, STEP_REDUCED, length, message, from);
        cshim_decode(plan->codec, plan->dtype, message + CSHIM_HEADER_BYTES, length,
                     exchange->output + begin * exchange->element_bytes);
    }
    const double decoded = cshim_seconds();
    exchange->figures.seconds_decode += decoded - mark;
    if (status == MPI_SUCCESS)
        status = wait_all(exchange, &segment, SEND_PARTS);
    if (status == MPI_SUCCESS)
        status = wait_all(exchange, &segment, SEND_REDUCED);
    exchange->figures.seconds_exchange += cshim_seconds() - decoded;
    return status;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    const uint64_t segments = exchange->plan->segments;
    int status = MPI_SUCCESS;
    for (uint64_t i = 0; i < segments + FINISH_LAG && status == MPI_SUCCESS; i++) {
        if (i < segments)
            status = begin_segment(exchange, i);
        if (status == MPI_SUCCESS && i >= REDUCE_LAG && i - REDUCE_LAG < segments)
            status = reduce_segment(exchange, i - REDUCE_LAG);
        if (status == MPI_SUCCESS && i >= FINISH_LAG)
            status = finish_segment(exchange, i - FINISH_LAG);
    }
    return status;
}
