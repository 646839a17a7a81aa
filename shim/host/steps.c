/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/segment.h"

#include <string.h>

#include "shim/core/log.h"

/* Ranks of a node read each other's messages from this size on. */
#define SHARED_BYTES 16384u

/* Messages: headers, requests, and what became of them ----------------------------------------- */

static enum cshim_message kind_of(enum cshim_transfer transfer)
{
    return transfer == CSHIM_RECEIVE_PARTS || transfer == CSHIM_SEND_PARTS ? CSHIM_MESSAGE_PARTS
                                                                           : CSHIM_MESSAGE_SUMS;
}

/* How long a message with so many elements may be. */
static size_t message_bytes(const struct cshim_exchange *exchange, enum cshim_message kind,
                            uint64_t elements)
{
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(cshim_message_codec(exchange->plan, kind),
                                                    exchange->plan->dtype, elements);
}

/* The number of a transfer's request with peer 0; those with the other peers follow. */
static unsigned first_request(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, enum cshim_transfer transfer)
{
    return segment->first_request + (unsigned)transfer * exchange->plan->peers;
}

/* Whether this rank's messages can be read in its scratch. */
static bool shares(const struct cshim_exchange *exchange)
{
    return exchange->is_shared && cshim_scratch_is_shared(exchange->communicator->scratch);
}

/* The shared scratch of another peer, which this rank's is read by, too; or NULL. */
static const uint8_t *scratch_of(const struct cshim_exchange *exchange, int peer)
{
    return exchange->is_shared ? exchange->communicator->transport->scratch_of(exchange, peer)
                               : NULL;
}

/* Writes the header of a message with so many elements. */
static void write_header(const struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_message kind, uint64_t elements, uint8_t *message)
{
    struct cshim_header header = cshim_header_make(exchange->plan, exchange->sequence,
                                                   segment->index, kind, elements, exchange->error);
    if (shares(exchange))
        header.step |= CSHIM_HEADER_SHARED;
    memcpy(message, &header, sizeof header);
}

/* Checks the header of a peer's message with so many elements, and notes the error that its sender
 * knows of. Ranks that disagree about a call are an erroneous program: the job ends, and both views
 * of the call are shown. */
static void check_header(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_message kind, uint64_t elements, const uint8_t *message,
                         int from)
{
    const struct cshim_transport *transport = exchange->communicator->transport;
    char text[CSHIM_MISMATCH_MAX];
    float error;
    struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, segment->index, kind, elements, 0);
    if (cshim_header_is_shared(message)) /* whether it is does not matter to the call */
        want.step |= CSHIM_HEADER_SHARED;
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    cshim_log(CSHIM_LOG_ERROR, "%s does not match between rank %d and its peer %d: %s",
              transport->call_names[exchange->plan->collective], exchange->rank, from, text);
    transport->abort(exchange);
}

/* Starts to receive a message of so many elements from a peer. Returns an error of the transport.
 *
 * A message that is longer than its place comes from a rank that makes another call. It ends the
 * receive with an error, but its header may have come. The zeros make sure that no header of an
 * older message is taken for it. */
static int receive_message(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer transfer, int from, uint64_t elements)
{
    uint8_t *message = cshim_segment_piece(exchange, segment, transfer, from);
    memset(message, 0, CSHIM_HEADER_BYTES);
    return exchange->communicator->transport->receive(
        exchange, first_request(exchange, segment, transfer) + (unsigned)from, message,
        message_bytes(exchange, kind_of(transfer), elements), from, kind_of(transfer));
}

/* Starts to send a message of so many elements to a peer, and counts its bytes. Returns an error of
 * the transport. */
static int send_message(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        enum cshim_transfer transfer, const uint8_t *message, int to,
                        uint64_t elements)
{
    const size_t bytes =
        CSHIM_HEADER_BYTES +
        cshim_encoded_length(cshim_message_codec(exchange->plan, kind_of(transfer)),
                             exchange->plan->dtype, elements, message + CSHIM_HEADER_BYTES);
    const struct cshim_layout *layout = &exchange->communicator->layout;
    exchange->figures.bytes_wire += bytes;
    if (segment->stage != NULL || layout->node_of[to] != layout->node)
        exchange->figures.bytes_network += bytes;
    const bool is_read_here = shares(exchange) && scratch_of(exchange, to) != NULL;
    if (is_read_here)
        __atomic_thread_fence(__ATOMIC_RELEASE);
    return exchange->communicator->transport->send(
        exchange, first_request(exchange, segment, transfer) + (unsigned)to, message,
        is_read_here ? CSHIM_HEADER_BYTES : bytes, to, kind_of(transfer));
}

/* Checks the header of a peer's message that has come, and returns its elements: where the peer
 * encoded them, if this rank can read that. This rank's own are where a peer's would be. */
static const uint8_t *elements_of(struct cshim_exchange *exchange,
                                  const struct cshim_segment *segment, enum cshim_transfer transfer,
                                  int from, uint64_t elements)
{
    const uint8_t *message = cshim_segment_piece(exchange, segment, transfer, from);
    const uint8_t *scratch = scratch_of(exchange, from);
    if (from != exchange->rank)
        check_header(exchange, segment, kind_of(transfer), elements, message, from);
    if (scratch != NULL && cshim_header_is_shared(message)) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        message = scratch + cshim_segment_place_at(exchange, segment, transfer, from);
    }
    return message + CSHIM_HEADER_BYTES;
}

/* Compares what came to a receive that failed with what was to come. */
static void check_failed(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_transfer transfer, int from)
{
    uint64_t elements = 0;
    if (transfer == CSHIM_RECEIVE_PARTS)
        elements = cshim_segment_part(exchange, segment, from, exchange->rank).length;
    else if (transfer == CSHIM_RECEIVE_SUMS)
        elements = cshim_segment_owned(exchange, segment, from).length;
    else
        return;
    check_header(exchange, segment, kind_of(transfer), elements,
                 cshim_segment_piece(exchange, segment, transfer, from), from);
}

/* Completes a transfer with all peers: waits for it, unless the exchange is nonblocking; then *done
 * says whether it is complete. Returns an error of the transport. */
static int complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_transfer transfer, bool *done)
{
    int too_long = CSHIM_NO_PEER;
    const int status = exchange->communicator->transport->complete(
        exchange, first_request(exchange, segment, transfer), exchange->plan->peers, done,
        &too_long);
    if (too_long != CSHIM_NO_PEER)
        check_failed(exchange, segment, transfer, too_long);
    return status;
}

/* Steps ---------------------------------------------------------------------------------------- */

static bool has(const struct cshim_exchange *exchange, enum cshim_step step)
{
    return cshim_schedule_has(exchange->plan->schedule, step);
}

static bool gets_sums(const struct cshim_exchange *exchange, int peer)
{
    return cshim_schedule_gets_sums(exchange->plan->schedule, (uint32_t)peer, exchange->plan->root);
}

/* The peer whose elements this rank's own part has: itself, but in a broadcast the root. */
static int giver(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    return plan->schedule->root_gives ? (int)plan->root : exchange->rank;
}

/* The options of an encoding that begins at an element of the share, or NULL. */
static const struct cshim_encoding *options(const struct cshim_exchange *exchange,
                                            const struct cshim_segment *segment,
                                            enum cshim_message kind, uint64_t element,
                                            struct cshim_encoding *encoding)
{
    const struct cshim_residual *residual = exchange->residual;
    if (!exchange->has_options)
        return NULL;
    *encoding = (struct cshim_encoding){
        .stochastic = exchange->plan->rule->stochastic,
        .key = exchange->keys[kind],
        .first = segment->share.begin + element,
        .step = exchange->plan->step,
        .keep = exchange->plan->rule->keep,
    };
    if (residual != NULL)
        encoding->residual =
            (kind == CSHIM_MESSAGE_PARTS ? residual->sent : residual->reduced) + encoding->first;
    return encoding;
}

/* Encodes a part of this rank's elements, header first. */
static void encode_part(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        const struct cshim_range *part, uint8_t *message)
{
    struct cshim_encoding encoding;
    write_header(exchange, segment, CSHIM_MESSAGE_PARTS, part->length, message);
    cshim_encode_with(exchange->plan->codec, exchange->plan->dtype,
                      cshim_segment_source(exchange, segment, part->begin), part->length,
                      options(exchange, segment, CSHIM_MESSAGE_PARTS, part->begin, &encoding),
                      message + CSHIM_HEADER_BYTES);
}

/* Encodes the part that this rank keeps, where a peer's would be; where all receivers get the same
 * part, it is also what is sent. */
static void encode_own_part(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    if (giver(exchange) != exchange->rank)
        return;
    const struct cshim_range part =
        exchange->plan->schedule->parts_to == CSHIM_TO_OWNER
            ? cshim_segment_part(exchange, segment, exchange->rank, exchange->rank)
            : cshim_segment_owned(exchange, segment, exchange->rank);
    encode_part(exchange, segment, &part,
                cshim_segment_piece(exchange, segment, CSHIM_SEND_PARTS, exchange->rank));
}

static int post_receives(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const bool takes_sums = has(exchange, CSHIM_STEP_COLLECT) && gets_sums(exchange, rank);
    int status = 0;
    for (int step = 1; step < ranks && status == 0; step++) {
        const int from = (rank + ranks - step) % ranks;
        const struct cshim_range part = cshim_segment_part(exchange, segment, from, rank);
        const struct cshim_range sum = cshim_segment_owned(exchange, segment, from);
        if (part.length > 0)
            status = receive_message(exchange, segment, CSHIM_RECEIVE_PARTS, from, part.length);
        if (status == 0 && takes_sums && sum.length > 0)
            status = receive_message(exchange, segment, CSHIM_RECEIVE_SUMS, from, sum.length);
    }
    return status;
}

/* Each rank begins with the peer behind it, so that not all send to the same one. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const bool is_for_owner = exchange->plan->schedule->parts_to == CSHIM_TO_OWNER;
    exchange->communicator->transport->forget(exchange, segment->first_request,
                                              CSHIM_TRANSFERS * exchange->plan->peers);
    int status = post_receives(exchange, segment);
    if (!is_for_owner)
        encode_own_part(exchange, segment);
    cshim_event_step(exchange, CSHIM_STEP_ENCODE);
    for (int step = 1; step < ranks && status == 0; step++) {
        const int to = (rank + step) % ranks;
        uint8_t *message = cshim_segment_piece(exchange, segment, CSHIM_SEND_PARTS, to);
        const struct cshim_range part = cshim_segment_part(exchange, segment, rank, to);
        if (part.length == 0)
            continue;
        if (is_for_owner) {
            encode_part(exchange, segment, &part, message);
            cshim_event_step(exchange, CSHIM_STEP_ENCODE);
        }
        status = send_message(exchange, segment, CSHIM_SEND_PARTS, message, to, part.length);
        cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    }
    if (is_for_owner) {
        encode_own_part(exchange, segment);
        cshim_event_step(exchange, CSHIM_STEP_ENCODE);
    }
    return status;
}

/* Adds the parts of a range: into the output where the sum goes to nobody else, else into an
 * encoded sum. One of another codec is made from the output, whose elements have all been encoded.
 */
static void add_parts(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                      const struct cshim_range *range)
{
    const struct cshim_plan *plan = exchange->plan;
    const int rank = exchange->rank;
    const void **parts = exchange->communicator->parts;
    struct cshim_encoding encoding;
    uint8_t *sum = cshim_segment_piece(exchange, segment, CSHIM_SEND_SUMS, rank);
    for (int from = 0; from < exchange->ranks; from++)
        parts[from] = elements_of(exchange, segment, CSHIM_RECEIVE_PARTS, from, range->length);
    if (!has(exchange, CSHIM_STEP_COLLECT)) {
        cshim_reduce(plan->codec, plan->dtype, parts, plan->peers, range->length,
                     cshim_segment_target(exchange, segment, range->begin), NULL);
        return;
    }
    write_header(exchange, segment, CSHIM_MESSAGE_SUMS, range->length, sum);
    if (plan->gather_codec != plan->codec) {
        uint8_t *target = cshim_segment_target(exchange, segment, range->begin);
        cshim_reduce(plan->codec, plan->dtype, parts, plan->peers, range->length, target, NULL);
        cshim_encode_with(plan->gather_codec, plan->dtype, target, range->length,
                          options(exchange, segment, CSHIM_MESSAGE_SUMS, range->begin, &encoding),
                          sum + CSHIM_HEADER_BYTES);
        return;
    }
    cshim_reduce_with(plan->codec, plan->dtype, parts, plan->peers, range->length, NULL,
                      sum + CSHIM_HEADER_BYTES,
                      options(exchange, segment, CSHIM_MESSAGE_SUMS, range->begin, &encoding));
}

/* Makes of the part that the root gave to this rank what all receive, as it came. */
static void pass_part_on(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         uint64_t elements)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint8_t *part =
        elements_of(exchange, segment, CSHIM_RECEIVE_PARTS, giver(exchange), elements);
    uint8_t *passed = cshim_segment_piece(exchange, segment, CSHIM_SEND_SUMS, exchange->rank);
    write_header(exchange, segment, CSHIM_MESSAGE_SUMS, elements, passed);
    memcpy(passed + CSHIM_HEADER_BYTES, part,
           cshim_encoded_length(plan->codec, plan->dtype, elements, part));
}

/* Sends the encoded sum to the peers that receive it. */
static int send_sums(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                     uint64_t elements)
{
    const int rank = exchange->rank, ranks = exchange->ranks;
    const uint8_t *sum = cshim_segment_piece(exchange, segment, CSHIM_SEND_SUMS, rank);
    int status = 0;
    for (int step = 1; step < ranks && status == 0; step++) {
        const int to = (rank + step) % ranks;
        if (gets_sums(exchange, to))
            status = send_message(exchange, segment, CSHIM_SEND_SUMS, sum, to, elements);
    }
    return status;
}

int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    bool *done)
{
    const int rank = exchange->rank;
    const struct cshim_range added = cshim_segment_part(exchange, segment, giver(exchange), rank);
    const bool collects = has(exchange, CSHIM_STEP_COLLECT);
    int status = complete(exchange, segment, CSHIM_RECEIVE_PARTS, done);
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    if (status != 0 || !*done || added.length == 0)
        return status;
    if (has(exchange, CSHIM_STEP_SUM)) {
        add_parts(exchange, segment, &added);
        cshim_event_step(exchange, CSHIM_STEP_SUM);
    } else if (collects) {
        pass_part_on(exchange, segment, added.length);
    }
    if (collects) {
        status = send_sums(exchange, segment, added.length);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    return status;
}

/* Decodes what every peer has of the segment, this rank included: sums, or parts where nobody adds
 * them up. The root of a broadcast takes its own elements as all others get them; where they are
 * the same it writes nothing, since its buffer may be one that nobody can write to. */
static void decode(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = exchange->plan;
    const enum cshim_transfer transfer =
        has(exchange, CSHIM_STEP_COLLECT) ? CSHIM_RECEIVE_SUMS : CSHIM_RECEIVE_PARTS;
    if (plan->schedule->root_gives && giver(exchange) == exchange->rank &&
        cshim_codec_is_exact(plan->codec) && plan->codec != CSHIM_CODEC_BOUNDED)
        return;
    for (int from = 0; from < exchange->ranks; from++) {
        const struct cshim_range theirs = cshim_segment_owned(exchange, segment, from);
        if (theirs.length == 0 ||
            (transfer == CSHIM_RECEIVE_PARTS &&
             cshim_segment_part(exchange, segment, from, exchange->rank).length == 0))
            continue;
        cshim_decode(cshim_message_codec(plan, kind_of(transfer)), plan->dtype,
                     elements_of(exchange, segment, transfer, from, theirs.length), theirs.length,
                     cshim_segment_target(exchange, segment, theirs.begin));
    }
}

/* Whether all that was sent is gone. */
static int complete_sends(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          bool *done)
{
    const int status = complete(exchange, segment, CSHIM_SEND_PARTS, done);
    if (status != 0 || !*done || !has(exchange, CSHIM_STEP_COLLECT))
        return status;
    return complete(exchange, segment, CSHIM_SEND_SUMS, done);
}

/* A caller that waits decodes while the last messages are sent. A nonblocking exchange comes here
 * several times, and must decode once. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done)
{
    const bool decodes = has(exchange, CSHIM_STEP_DECODE) && (!has(exchange, CSHIM_STEP_COLLECT) ||
                                                              gets_sums(exchange, exchange->rank));
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    if (status == 0 && *done && has(exchange, CSHIM_STEP_COLLECT)) {
        status = complete(exchange, segment, CSHIM_RECEIVE_SUMS, done);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    if (status != 0 || !*done)
        return status;
    if (decodes) {
        decode(exchange, segment);
        cshim_event_step(exchange, CSHIM_STEP_DECODE);
    }
    if (!exchange->nonblocking) {
        status = complete_sends(exchange, segment, done);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    return status;
}

/* Messages of a few KiB cost less in a copy than in the word that they were read. What ranks read
 * is encoded anew CSHIM_SEGMENTS_IN_FLIGHT segments later. By then all peers are done with it if
 * each of them sends something to all others in every segment, behind what it reads: in an
 * all-reduce whose owners are all peers, or whose parts go to all. */
bool cshim_steps_may_share(const struct cshim_plan *plan)
{
    return plan->collective == CSHIM_ALLREDUCE && plan->piece_bytes >= SHARED_BYTES &&
           (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
            plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT);
}

/* Every rank sends an empty message to the others of its node once it has read all. */
int cshim_steps_close(struct cshim_exchange *exchange, bool begins, bool *done)
{
    struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_transport *transport = communicator->transport;
    const unsigned peers = exchange->plan->peers;
    int status = 0, too_long;
    *done = true;
    if (begins) {
        transport->forget(exchange, 0, 2 * peers);
        for (unsigned peer = 0; peer < peers && status == 0; peer++) {
            if (scratch_of(exchange, (int)peer) == NULL)
                continue;
            status = transport->receive(exchange, peer, communicator->scratch, 0, (int)peer,
                                        CSHIM_MESSAGE_PARTS);
            if (status == 0)
                status = transport->send(exchange, peers + peer, communicator->scratch, 0,
                                         (int)peer, CSHIM_MESSAGE_PARTS);
        }
    } else {
        status = transport->complete(exchange, 0, peers, done, &too_long);
        if (status == 0 && *done)
            status = transport->complete(exchange, peers, peers, done, &too_long);
    }
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    return status;
}

/* Finds the shares of all local ranks, and counts what a reduce-scatter or an all-gather inside the
 * node sends at least, once for the node. */
static void find_shares(struct cshim_exchange *exchange, const struct cshim_range *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_layout *layout = &communicator->layout;
    for (int i = 0; i < layout->local_ranks; i++) {
        const struct cshim_range share = cshim_segment_share(exchange, segment, i);
        communicator->share_begins[i] = (int)(share.begin - segment->begin);
        communicator->share_lengths[i] = (int)share.length;
    }
    if (layout->local_rank == 0)
        exchange->figures.bytes_wire +=
            (uint64_t)(layout->local_ranks - 1) * segment->length * exchange->element_bytes;
}

int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    find_shares(exchange, &segment->whole);
    const int status = communicator->transport->reduce_inside(
        exchange, exchange->input + segment->whole.begin * exchange->element_bytes, segment->stage,
        communicator->share_lengths);
    cshim_event_step(exchange, CSHIM_STEP_REDUCE_INSIDE);
    return status;
}

int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    find_shares(exchange, &segment->whole);
    const int status = communicator->transport->gather_inside(
        exchange, segment->stage, exchange->output + segment->whole.begin * exchange->element_bytes,
        communicator->share_lengths, communicator->share_begins);
    cshim_event_step(exchange, CSHIM_STEP_GATHER_INSIDE);
    return status;
}
