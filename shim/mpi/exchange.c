/* SPDX-License-Identifier: Apache-2.0 */
/* The reissued collective: allgather (one shot), two_shot and hierarchical, in segments of which
 * several are in flight, so that encoding, wire, reducing and decoding overlap.
 *
 * two_shot, per segment: every rank encodes one chunk for each rank and sends it there; the chunk's
 * owner decodes and adds the parts in rank order, encodes the sum once, sends it to all, and
 * decodes what it sent like everybody else. allgather: every rank sends its whole segment to all,
 * and all add the parts in rank order. hierarchical: the same as two_shot, between one rank of each
 * node, over that rank's share of the node's sum.
 *
 * A reduce is the same, but that only the root gets the sums: all send to it at once, or it
 * collects them from the owners. A reduce_scatter is the first half of two_shot, with chunks of the
 * ranks' results.
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

static bool is_scattered(const struct cshim_exchange *exchange)
{
    return exchange->plan->collective == CSHIM_REDUCE_SCATTER;
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
    if (is_scattered(exchange))
        segment.whole = (struct cshim_range){0, plan->count};
    segment.share = segment.whole;
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL) {
        segment.share =
            cshim_levels_share(exchange, &segment.whole, exchange->comm->layout.local_rank);
        segment.stage = segment.scratch + plan->slot_bytes - plan->stage_bytes;
    }
    return segment;
}

/* Whether a peer gets the sums of whole segments. */
static bool takes_sums(const struct cshim_exchange *exchange, int peer)
{
    if (exchange->plan->collective == CSHIM_REDUCE)
        return peer == (int)exchange->plan->root;
    return !is_scattered(exchange);
}

/* The chunk of a peer's result that a segment of a reduce_scatter has. */
static struct cshim_range scattered(const struct cshim_exchange *exchange,
                                    const struct segment *segment, int peer)
{
    const uint64_t begin = exchange->comm->block_begins[peer];
    const uint64_t length = exchange->comm->block_begins[peer + 1] - begin;
    const uint64_t chunk = exchange->plan->segment / exchange->plan->peers;
    const uint64_t done = segment->index * chunk;
    if (done >= length)
        return (struct cshim_range){begin, 0};
    return (struct cshim_range){begin + done, length - done < chunk ? length - done : chunk};
}

/* The part of a share that a peer adds up: all of it where parts are gathered. Begins within the
 * share. */
static struct cshim_range owned(const struct cshim_exchange *exchange,
                                const struct segment *segment, int peer)
{
    struct cshim_range range = {0, segment->share.length};
    if (is_scattered(exchange))
        return scattered(exchange, segment, peer);
    if (!is_gathered(exchange))
        cshim_plan_chunk(segment->share.length, exchange->plan->peers, (uint32_t)peer, &range.begin,
                         &range.length);
    else if (!takes_sums(exchange, peer))
        range.length = 0;
    return range;
}

/* Where elements of the share are read from, and where their sums are written to. A reduce_scatter
 * writes to the place that its own result has in the caller's buffer: before, in place, are only
 * elements that have been encoded. */
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
    if (is_scattered(exchange))
        element -= exchange->comm->block_begins[exchange->rank];
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
    static const char *const names[CSHIM_COLLECTIVE_COUNT] = {
        [CSHIM_ALLREDUCE] = "MPI_Allreduce",
        [CSHIM_REDUCE_SCATTER] = "MPI_Reduce_scatter",
        [CSHIM_REDUCE] = "MPI_Reduce",
    };
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, segment->index, step, elements, 0);
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    cshim_log(CSHIM_LOG_ERROR, "%s does not match between rank %d and its peer %d: %s",
              names[exchange->plan->collective], exchange->rank, from, text);
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

/* MPICH's error codes say more than their class. */
static int class_of(int error)
{
    int class = error;
    PMPI_Error_class(error, &class);
    return class;
}

/* The error of the first request that has one, of `count` that have ended; indices say which, NULL:
 * all in order. */
static int first_error(struct cshim_exchange *exchange, const struct segment *segment,
                       enum kind kind, int count, const int *indices)
{
    for (int i = 0; i < count; i++) {
        const int error = exchange->comm->statuses[i].MPI_ERROR;
        if (error == MPI_SUCCESS || class_of(error) == MPI_ERR_PENDING)
            continue;
        if (class_of(error) == MPI_ERR_TRUNCATE)
            check_failed(exchange, segment, kind, indices != NULL ? indices[i] : i);
        return error;
    }
    return MPI_ERR_IN_STATUS;
}

/* Whether all requests of a kind have ended; waits for that unless the exchange is nonblocking. */
static int complete(struct cshim_exchange *exchange, const struct segment *segment, enum kind kind,
                    bool *done)
{
    struct cshim_comm *comm = exchange->comm;
    MPI_Request *requests = request(exchange, segment, kind, 0);
    int status, count = exchange->ranks;
    if (!exchange->nonblocking) {
        *done = true;
        status = PMPI_Waitall(count, requests, comm->statuses);
        return class_of(status) == MPI_ERR_IN_STATUS
                   ? first_error(exchange, segment, kind, count, NULL)
                   : status;
    }
    do
        status = PMPI_Testsome(exchange->ranks, requests, &count, comm->indices, comm->statuses);
    while (status == MPI_SUCCESS && count > 0);
    *done = status == MPI_SUCCESS && count == MPI_UNDEFINED;
    return class_of(status) == MPI_ERR_IN_STATUS
               ? first_error(exchange, segment, kind, count, comm->indices)
               : status;
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
        if (status == MPI_SUCCESS && !is_gathered(exchange) && takes_sums(exchange, rank) &&
            theirs.length > 0)
            status = receive(exchange, segment, RECEIVE_REDUCED, from, theirs.length);
    }
    return status;
}

/* First stage: receives are posted, parts encoded and sent, starting behind the own rank so that
 * not all send to the same one. */
static int begin_segment(struct cshim_exchange *exchange, const struct segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    double mark = cshim_seconds();
    for (size_t i = 0; i < (size_t)KINDS * (size_t)ranks; i++)
        segment->requests[i] = MPI_REQUEST_NULL;
    int status = post_receives(exchange, segment);
    if (is_gathered(exchange)) {
        const int taker = takes_sums(exchange, rank) ? rank : (int)exchange->plan->root;
        encode_part(exchange, segment, taker, piece(exchange, segment, SEND_PARTS, rank));
    }
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        uint8_t *message = piece(exchange, segment, SEND_PARTS, to);
        const struct cshim_range theirs = owned(exchange, segment, to);
        if (theirs.length == 0)
            continue;
        if (!is_gathered(exchange))
            encode_part(exchange, segment, to, message);
        mark = cshim_phase_end(exchange, CSHIM_TRACE_ENCODE, mark);
        status = send(exchange, segment, SEND_PARTS, message, to, theirs.length);
        mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    }
    if (!is_gathered(exchange))
        encode_part(exchange, segment, rank, piece(exchange, segment, SEND_PARTS, rank));
    cshim_phase_end(exchange, CSHIM_TRACE_ENCODE, mark);
    return status;
}

/* Adds the parts of the own chunk: into the output where it is the result, else into an encoded
 * sum. */
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
    if (is_gathered(exchange) || is_scattered(exchange)) {
        cshim_reduce(plan->codec, plan->dtype, parts, plan->peers, own->length,
                     target(exchange, segment, own->begin), NULL);
        return;
    }
    write_header(exchange, segment, CSHIM_STEP_REDUCED, own->length, reduced);
    cshim_reduce_with(plan->codec, plan->dtype, parts, plan->peers, own->length, NULL,
                      reduced + CSHIM_HEADER_BYTES,
                      options(exchange, segment, CSHIM_STEP_REDUCED, own->begin, &encoding));
}

/* Sends the encoded sum to those who take it. */
static int send_sums(struct cshim_exchange *exchange, const struct segment *segment,
                     uint64_t elements)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    int status = MPI_SUCCESS;
    for (int step = 1; step < ranks && status == MPI_SUCCESS; step++) {
        const int to = (rank + step) % ranks;
        if (takes_sums(exchange, to))
            status = send(exchange, segment, SEND_REDUCED,
                          piece(exchange, segment, SEND_REDUCED, rank), to, elements);
    }
    return status;
}

/* Second stage: the parts have come; the owner adds them and sends the sum to all. */
static int reduce_segment(struct cshim_exchange *exchange, const struct segment *segment,
                          bool *done)
{
    const struct cshim_range own = owned(exchange, segment, exchange->rank);
    double mark = cshim_seconds();
    int status = complete(exchange, segment, RECEIVE_PARTS, done);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    if (status != MPI_SUCCESS || !*done || own.length == 0)
        return status;
    reduce_parts(exchange, segment, &own);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_DECODE, mark);
    if (!is_gathered(exchange))
        status = send_sums(exchange, segment, own.length);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
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

/* Whether all that was sent is gone. */
static int complete_sends(struct cshim_exchange *exchange, const struct segment *segment,
                          bool *done)
{
    const int status = complete(exchange, segment, SEND_PARTS, done);
    if (status != MPI_SUCCESS || !*done)
        return status;
    return complete(exchange, segment, SEND_REDUCED, done);
}

/* Last stage: the reduced chunks have come; what was sent is gone. Whoever waits decodes while the
 * last is sent; a nonblocking exchange comes here several times, and decodes once. */
static int finish_segment(struct cshim_exchange *exchange, const struct segment *segment,
                          bool *done)
{
    double mark = cshim_seconds();
    int status = MPI_SUCCESS;
    *done = true;
    if (exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    if (status == MPI_SUCCESS && *done)
        status = complete(exchange, segment, RECEIVE_REDUCED, done);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
    if (status != MPI_SUCCESS || !*done)
        return status;
    if (!is_gathered(exchange) && takes_sums(exchange, exchange->rank))
        decode_chunks(exchange, segment);
    mark = cshim_phase_end(exchange, CSHIM_TRACE_DECODE, mark);
    if (!exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, mark);
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

static int reduce(struct cshim_exchange *exchange, uint64_t index, bool *done)
{
    const struct segment segment = segment_at(exchange, index);
    if (exchange->peers == MPI_COMM_NULL)
        return MPI_SUCCESS;
    return reduce_segment(exchange, &segment, done);
}

static int leave(struct cshim_exchange *exchange, uint64_t index, bool *done)
{
    const struct segment segment = segment_at(exchange, index);
    int status = MPI_SUCCESS;
    if (exchange->peers != MPI_COMM_NULL)
        status = finish_segment(exchange, &segment, done);
    if (status == MPI_SUCCESS && *done && segment.stage != NULL)
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

void cshim_exchange_begin(struct cshim_exchange *exchange)
{
    find_peers(exchange);
    exchange->turn = 0;
    exchange->stage = CSHIM_STAGE_ENTER;
}

/* One stage of a turn: a segment begins, an earlier one is reduced, a still earlier one finishes.
 */
static int take_stage(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t turn = exchange->turn, segments = exchange->plan->segments;
    *done = true;
    switch (exchange->stage) {
    case CSHIM_STAGE_ENTER:
        return turn < segments ? enter(exchange, turn) : MPI_SUCCESS;
    case CSHIM_STAGE_REDUCE:
        return turn >= REDUCE_LAG && turn - REDUCE_LAG < segments
                   ? reduce(exchange, turn - REDUCE_LAG, done)
                   : MPI_SUCCESS;
    case CSHIM_STAGE_LEAVE:
        return turn >= FINISH_LAG ? leave(exchange, turn - FINISH_LAG, done) : MPI_SUCCESS;
    case CSHIM_STAGE_COUNT:
        break;
    }
    return MPI_SUCCESS;
}

int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t turns = exchange->plan->segments + FINISH_LAG;
    int status = MPI_SUCCESS;
    *done = true;
    while (exchange->turn < turns) {
        status = take_stage(exchange, done);
        if (status != MPI_SUCCESS || !*done)
            return status;
        if (++exchange->stage == CSHIM_STAGE_COUNT) {
            exchange->stage = CSHIM_STAGE_ENTER;
            exchange->turn++;
        }
    }
    return status;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    bool done;
    cshim_exchange_begin(exchange);
    return cshim_exchange_advance(exchange, &done);
}
