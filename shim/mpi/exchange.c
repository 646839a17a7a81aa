/* SPDX-License-Identifier: Apache-2.0 */
/* The reissued all-reduce: allgather (one shot), two_shot and hierarchical, in segments of which
 * several are in flight, so that encoding, wire, reducing and decoding overlap.
 *
 * two_shot, per segment: every rank encodes one chunk for each rank and sends it there; the chunk's
 * owner decodes and adds the parts in rank order, encodes the sum once, sends it to all, and
 * decodes what it sent like everybody else. allgather: every rank sends its whole segment to all,
 * and all add the parts in rank order. hierarchical: the same as two_shot, between one rank of each
 * node, over that rank's share of the node's sum.
 */
#include "shim/mpi/internal.h"

/* The kinds of request a segment has; each has one place per peer. */
enum kind { RECEIVE_PARTS, RECEIVE_REDUCED, SEND_PARTS, SEND_REDUCED, KINDS };

/* A segment begins, is reduced this many segments later, and finishes after that. */
#define REDUCE_LAG 1u
#define FINISH_LAG (CSHIM_SEGMENTS_IN_FLIGHT - 1)

/* A segment in flight: where it lies, its scratch and its requests. */
struct segment {
    uint64_t index;
    struct cshim_range whole; /* of the caller's elements */
    struct cshim_range share; /* what is exchanged with the peers: all but in hierarchical */
    uint8_t *scratch;         /* pieces of plan->piece_bytes each */
    uint8_t *stage;           /* hierarchical: the share's elements; else NULL */
    MPI_Request *requests;
};

static bool is_gathered(const struct cshim_exchange *exchange)
{
    return exchange->plan->algorithm == CSHIM_ALGORITHM_ALLGATHER;
}

static struct segment segment_at(const struct cshim_exchange *exchange, uint64_t index)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t slot = index % CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t begin = index * plan->segment;
    struct segment segment = {
        .index = index,
        .whole = {begin, plan->count - begin < plan->segment ? plan->count - begin : plan->segment},
        .scratch = exchange->comm->scratch + slot * plan->slot_bytes,
        .requests = exchange->comm->requests + slot * KINDS * plan->peers,
    };
    segment.share = segment.whole;
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL) {
        segment.share =
            cshim_levels_share(exchange, &segment.whole, exchange->comm->layout.local_rank);
        segment.stage = segment.scratch + plan->slot_bytes - plan->stage_bytes;
    }
    return segment;
}

/* The part of a share that a peer owns: all of it in an allgather. Begins within the share. */
static struct cshim_range owned(const struct cshim_exchange *exchange,
                                const struct segment *segment, int peer)
{
    struct cshim_range range = {0, segment->share.length};
    if (!is_gathered(exchange))
        cshim_plan_chunk(segment->share.length, exchange->plan->peers, (uint32_t)peer, &range.begin,
                         &range.length);
    return range;
}

/* Where elements of the share are read from, and where they are written to. */
static const uint8_t *source(const struct cshim_exchange *exchange, const struct segment *segment,
                             uint64_t element)
{
    if (segment->stage != NULL)
        return segment->stage + element * exchange->element_bytes;
    return exchange->input + (segment->share.begin + element) * exchange->element_bytes;
}

static uint8_t *target(const struct cshim_exchange *exchange, const struct segment *segment,
                       uint64_t element)
{
    if (segment->stage != NULL)
        return segment->stage + element * exchange->element_bytes;
    return exchange->output + (segment->share.begin + element) * exchange->element_bytes;
}

/* Scratch of a segment: parts received from each peer (own: what it would have sent itself), then
 * reduced chunks of each peer, then parts to send to each. An allgather sends its own part. */
static uint8_t *piece(const struct cshim_exchange *exchange, const struct segment *segment,
                      enum kind kind, int peer)
{
    const uint64_t peers = exchange->plan->peers;
    uint64_t index = (uint64_t)peer;
    if (kind == RECEIVE_REDUCED || kind == SEND_REDUCED)
        index += peers;
    else if (kind == SEND_PARTS && !is_gathered(exchange) && peer != exchange->rank)
        index += 2 * peers;
    else if (kind == SEND_PARTS)
        index = (uint64_t)exchange->rank;
    return segment->scratch + index * exchange->plan->piece_bytes;
}

static void write_header(const struct cshim_exchange *exchange, const struct segment *segment,
                         enum cshim_step step, uint64_t elements, uint8_t *message)
{
    const struct cshim_header header = cshim_header_make(
        exchange->plan, exchange->sequence, segment->index, step, elements, exchange->error);
    memcpy(message, &header, sizeof header);
}

/* Takes the sender's error over. Ranks that disagree about a call are an erroneous program: the job
 * ends, both views shown. */
static void check_header(struct cshim_exchange *exchange, const struct segment *segment,
                         enum cshim_step step, uint64_t elements, const uint8_t *message, int from)
{
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, segment->index, step, elements, 0);
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    cshim_log(CSHIM_LOG_ERROR, "MPI_Allreduce does not match between rank %d and its peer %d: %s",
              exchange->rank, from, text);
    PMPI_Abort(exchange->comm->comm, 1);
}

static int message_bytes(const struct cshim_exchange *exchange, uint64_t elements)
{
    return (int)(CSHIM_HEADER_BYTES +
                 cshim_encoded_bytes(exchange->plan->codec, exchange->plan->dtype, elements));
}

static MPI_Request *request(const struct cshim_exchange *exchange, const struct segment *segment,
                            enum kind kind, int peer)
{
    return &segment->requests[(uint32_t)kind * exchange->plan->peers + (uint32_t)peer];
}

static int tag_of(enum kind kind)
{
    return kind == RECEIVE_PARTS || kind == SEND_PARTS ? CSHIM_STEP_PARTS : CSHIM_STEP_REDUCED;
}

/* A message that is longer than its place, from a rank that makes another call, ends the receive
 * with an error; its header may have come all the same. No older one must be taken for it. */
static int receive(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind,
                   int from, uint64_t elements)
{
    uint8_t *message = piece(exchange, segment, kind, from);
    memset(message, 0, CSHIM_HEADER_BYTES);
    return PMPI_Irecv(message, message_bytes(exchange, elements), MPI_BYTE, from, tag_of(kind),
                      exchange->peers, request(exchange, segment, kind, from));
}

static int send(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind,
                const uint8_t *message, int to, uint64_t elements)
{
    const int bytes = message_bytes(exchange, elements);
    const struct cshim_layout *layout = &exchange->comm->layout;
    exchange->figures.bytes_wire += (uint64_t)bytes;
    if (segment->stage != NULL || layout->node_of[to] != layout->node)
        exchange->figures.bytes_network += (uint64_t)bytes;
    return PMPI_Isend(message, bytes, MPI_BYTE, to, tag_of(kind), exchange->peers,
                      request(exchange, segment, kind, to));
}

/* Compares what came to a receive that failed with what was to come. */
static void check_failed(struct cshim_exchange *exchange, const struct segment *segment,
                         enum kind kind, int from)
{
    const int owner = kind == RECEIVE_PARTS ? exchange->rank : from;
    if (kind == RECEIVE_PARTS || kind == RECEIVE_REDUCED)
        check_header(exchange, segment, (enum cshim_step)tag_of(kind),
                     owned(exchange, segment, owner).length, piece(exchange, segment, kind, from),
                     from);
}

/* Waits for all requests of a kind. Of errors, that of the first request that has one. */
static int wait_all(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind)
{
    MPI_Status *statuses = exchange->comm->statuses;
    const int status = PMPI_Waitall(exchange->ranks, request(exchange, segment, kind, 0), statuses);
    for (int peer = 0; status == MPI_ERR_IN_STATUS && peer < exchange->ranks; peer++) {
        const int error = statuses[peer].MPI_ERROR;
        if (error == MPI_SUCCESS || error == MPI_ERR_PENDING)
            continue;
        if (error == MPI_ERR_TRUNCATE)
            check_failed(exchange, segment, kind, peer);
        return error;
    }
    return status;
}

/* The options of an encoding that begins at an element of the share, or NULL. */
static const struct cshim_encoding *options(const struct cshim_exchange *exchange,
                                            const struct segment *segment, enum cshim_step step,
                                            uint64_t element, struct cshim_encoding *encoding)
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
            (step == CSHIM_STEP_PARTS ? residual->sent : residual->reduced) + encoding->first;
    return encoding;
}

/* Encodes the part of this rank's share that `owner` owns, header first. */
static void encode_part(struct cshim_exchange *exchange, const struct segment *segment, int owner,
                        uint8_t *message)
{
    const struct cshim_range part = owned(exchange, segment, owner);
    struct cshim_encoding encoding;
    write_header(exchange, segment, CSHIM_STEP_PARTS, part.length, message);
    cshim_encode_with(exchange->plan->codec, exchange->plan->dtype,
                      source(exchange, segment, part.begin), part.length,
                      options(exchange, segment, CSHIM_STEP_PARTS, part.begin, &encoding),
                      message + CSHIM_HEADER_BYTES);
}

static int post_receives(struct cshim_exchange *exchange, const struct segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const struct cshim_range own = owned(exchange, segment, rank);
    int status = MPI_SUCCESS;
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int from = (rank + ranks - step) % ranks;
        const struct cshim_range theirs = owned(exchange, segment, from);
        if (own.length > 0)
            status = receive(exchange, segment, RECEIVE_PARTS, from, own.length);
        if (status == MPI_SUCCESS && !is_gathered(exchange) && theirs.length > 0)
            status = receive(exchange, segment, RECEIVE_REDUCED, from, theirs.length);
    }
    return status;
}

/* First stage: receives are posted, parts encoded and sent, starting behind the own rank so that
 * not all send to the same one. */
static int begin_segment(struct cshim_exchange *exchange, const struct segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const double began = cshim_seconds();
    double sending = 0;
    for (size_t i = 0; i < (size_t)KINDS * (size_t)ranks; i++)
        segment->requests[i] = MPI_REQUEST_NULL;
    int status = post_receives(exchange, segment);
    if (is_gathered(exchange))
        encode_part(exchange, segment, rank, piece(exchange, segment, SEND_PARTS, rank));
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        uint8_t *message = piece(exchange, segment, SEND_PARTS, to);
        const struct cshim_range theirs = owned(exchange, segment, to);
        if (theirs.length == 0)
            continue;
        if (!is_gathered(exchange))
            encode_part(exchange, segment, to, message);
        const double posted = cshim_seconds();
        status = send(exchange, segment, SEND_PARTS, message, to, theirs.length);
        sending += cshim_seconds() - posted;
    }
    if (!is_gathered(exchange))
        encode_part(exchange, segment, rank, piece(exchange, segment, SEND_PARTS, rank));
    exchange->figures.seconds_encode += cshim_seconds() - began - sending;
    exchange->figures.seconds_exchange += sending;
    return status;
}

/* Adds the parts of the own chunk (two_shot: into an encoded sum; allgather: into the output). */
static void reduce_parts(struct cshim_exchange *exchange, const struct segment *segment,
                         const struct cshim_range *own)
{
    const struct cshim_plan *plan = exchange->plan;
    const int rank = exchange->rank;
    const void **parts = exchange->comm->parts;
    struct cshim_encoding encoding;
    uint8_t *reduced = piece(exchange, segment, SEND_REDUCED, rank);
    for (int from = 0; from < exchange->ranks; from++) {
        const uint8_t *message = piece(exchange, segment, RECEIVE_PARTS, from);
        if (from != rank)
            check_header(exchange, segment, CSHIM_STEP_PARTS, own->length, message, from);
        parts[from] = message + CSHIM_HEADER_BYTES;
    }
    if (is_gathered(exchange)) {
        cshim_reduce(plan->codec, plan->dtype, parts, plan->peers, own->length,
                     target(exchange, segment, own->begin), NULL);
        return;
    }
    write_header(exchange, segment, CSHIM_STEP_REDUCED, own->length, reduced);
    cshim_reduce_with(plan->codec, plan->dtype, parts, plan->peers, own->length, NULL,
                      reduced + CSHIM_HEADER_BYTES,
                      options(exchange, segment, CSHIM_STEP_REDUCED, own->begin, &encoding));
}

/* Second stage: the parts have come; the owner adds them and sends the sum to all. */
static int reduce_segment(struct cshim_exchange *exchange, const struct segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const struct cshim_range own = owned(exchange, segment, rank);
    double mark = cshim_seconds();
    int status = wait_all(exchange, segment, RECEIVE_PARTS);
    exchange->figures.seconds_exchange += cshim_seconds() - mark;
    if (status != MPI_SUCCESS || own.length == 0)
        return status;
    mark = cshim_seconds();
    reduce_parts(exchange, segment, &own);
    const double reduced = cshim_seconds();
    for (int step = 1; step < ranks && !is_gathered(exchange) && status == MPI_SUCCESS; step++)
        status = send(exchange, segment, SEND_REDUCED, piece(exchange, segment, SEND_REDUCED, rank),
                      (rank + step) % ranks, own.length);
    exchange->figures.seconds_decode += reduced - mark;
    exchange->figures.seconds_exchange += cshim_seconds() - reduced;
    return status;
}

/* Decodes the reduced chunks of all, the own one too. */
static void decode_chunks(struct cshim_exchange *exchange, const struct segment *segment)
{
    const struct cshim_plan *plan = exchange->plan;
    for (int from = 0; from < exchange->ranks; from++) {
        const uint8_t *message = piece(exchange, segment, RECEIVE_REDUCED, from);
        const struct cshim_range theirs = owned(exchange, segment, from);
        if (theirs.length == 0)
            continue;
        if (from != exchange->rank)
            check_header(exchange, segment, CSHIM_STEP_REDUCED, theirs.length, message, from);
        cshim_decode(plan->codec, plan->dtype, message + CSHIM_HEADER_BYTES, theirs.length,
                     target(exchange, segment, theirs.begin));
    }
}

/* Last stage: the reduced chunks have come; what was sent is gone. */
static int finish_segment(struct cshim_exchange *exchange, const struct segment *segment)
{
    double mark = cshim_seconds();
    int status = wait_all(exchange, segment, RECEIVE_REDUCED);
    exchange->figures.seconds_exchange += cshim_seconds() - mark;
    mark = cshim_seconds();
    if (status == MPI_SUCCESS && !is_gathered(exchange))
        decode_chunks(exchange, segment);
    const double decoded = cshim_seconds();
    exchange->figures.seconds_decode += decoded - mark;
    if (status == MPI_SUCCESS)
        status = wait_all(exchange, segment, SEND_PARTS);
    if (status == MPI_SUCCESS)
        status = wait_all(exchange, segment, SEND_REDUCED);
    exchange->figures.seconds_exchange += cshim_seconds() - decoded;
    return status;
}

/* The stages with what hierarchical does before and after them. All ranks of a node come to its
 * collectives in the same order; a rank without share does nothing between them. */
static int enter(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    int status = MPI_SUCCESS;
    if (segment.stage != NULL)
        status = cshim_levels_reduce(exchange, &segment.whole, segment.stage);
    if (status == MPI_SUCCESS && exchange->peers != MPI_COMM_NULL)
        status = begin_segment(exchange, &segment);
    return status;
}

static int reduce(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    return exchange->peers == MPI_COMM_NULL ? MPI_SUCCESS : reduce_segment(exchange, &segment);
}

static int leave(struct cshim_exchange *exchange, uint64_t index)
{
    const struct segment segment = segment_at(exchange, index);
    int status = MPI_SUCCESS;
    if (exchange->peers != MPI_COMM_NULL)
        status = finish_segment(exchange, &segment);
    if (status == MPI_SUCCESS && segment.stage != NULL)
        status = cshim_levels_gather(exchange, &segment.whole, segment.stage);
    return status;
}

static void find_peers(struct cshim_exchange *exchange)
{
    const struct cshim_comm *comm = exchange->comm;
    const bool levels = exchange->plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL;
    exchange->peers = levels ? comm->across : comm->comm;
    exchange->rank = levels ? comm->layout.node : comm->rank;
    exchange->ranks = (int)exchange->plan->peers;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    const uint64_t segments = exchange->plan->segments;
    int status = MPI_SUCCESS;
    find_peers(exchange);
    for (uint64_t i = 0; i < segments + FINISH_LAG && status == MPI_SUCCESS; i++) {
        if (i < segments)
            status = enter(exchange, i);
        if (status == MPI_SUCCESS && i >= REDUCE_LAG && i - REDUCE_LAG < segments)
            status = reduce(exchange, i - REDUCE_LAG);
        if (status == MPI_SUCCESS && i >= FINISH_LAG)
            status = leave(exchange, i - FINISH_LAG);
    }
    return status;
}
