/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/steps.h"

#include <string.h>

#include "shim/host/bounce.h"
#include "shim/host/message.h"
#include "shim/host/event.h"

/* Ranks of a node read each other's messages in place from this size on, in bytes. Libraries send
 * shorter messages eagerly, and longer ones by a rendezvous with the receiver (Open MPI's
 * btl_vader_eager_limit). */
#define SHARED_BYTES 4096u

static bool has_step(const struct cshim_exchange *exchange, enum cshim_step step)
{
    return cshim_schedule_has(exchange->plan->schedule, step);
}

/* Returns true if a peer of the row receives sums. */
static bool gets_sums(const struct cshim_exchange *exchange, int peer)
{
    return cshim_schedule_gets_sums(exchange->plan->schedule, (uint32_t)peer, exchange->root);
}

/* Returns the peer whose elements this rank's contribution contains: itself, in a broadcast the
 * root. */
static int source_peer(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    return plan->schedule->root_gives ? (int)plan->root : exchange->groups[CSHIM_ROW].rank;
}

/* Returns true if this rank receives results. */
static bool decodes(const struct cshim_exchange *exchange)
{
    return has_step(exchange, CSHIM_STEP_DECODE) &&
           (!has_step(exchange, CSHIM_STEP_COLLECT) ||
            gets_sums(exchange, exchange->groups[CSHIM_ROW].rank));
}

/* Returns the options of an encoding that begins at element `element` of the share; NULL: none. */
static const struct cshim_encoding *encoding_options(const struct cshim_exchange *exchange,
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
        encoding->residual = residual->values[kind] + encoding->first;
    return encoding;
}

/* Returns how a contribution for an owner is written. Exact codecs use no bounce buffer: raw is a
 * copy itself, and lossless takes longer than any wait for cache lines. */
static enum cshim_writing writing_of(const struct cshim_exchange *exchange, int owner)
{
    const struct cshim_plan *plan = exchange->plan;
    bool is_read = cshim_message_is_read_in_place(exchange);
    if (plan->schedule->parts_to == CSHIM_TO_OWNER)
        is_read =
            is_read && owner != exchange->groups[CSHIM_ROW].rank &&
            cshim_message_scratch(exchange, cshim_message_peer(exchange, CSHIM_ROW, owner)) != NULL;
    return is_read && !cshim_codec_is_exact(plan->codec) ? CSHIM_WRITING_PART
                                                         : CSHIM_WRITING_UNREAD;
}

/* Encodes a range of this rank's contribution to what `owner` owns. Returns the bytes. */
static size_t encode_range(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           int owner, const struct cshim_range *range, uint8_t *place)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_encoding encoding;
    struct cshim_bounce bounce =
        cshim_bounce_begin(writing_of(exchange, owner), place,
                           cshim_encoded_bytes(plan->codec, plan->dtype, range->length));
    cshim_encode_with(
        plan->codec, plan->dtype, cshim_segment_source(exchange, segment, owner, range->begin),
        range->length,
        encoding_options(exchange, segment, CSHIM_MESSAGE_PARTS, range->begin, &encoding),
        bounce.encoded);
    const size_t bytes =
        cshim_message_bytes(exchange, CSHIM_MESSAGE_PARTS, range->length, bounce.encoded);
    cshim_bounce_end(&bounce, bytes);
    return bytes;
}

/* Encodes this rank's contribution to what `owner` owns, with its header, piece by piece in a grid.
 * Returns the bytes. */
static size_t encode_part(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          int owner, uint8_t *message)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_range part =
        plan->schedule->parts_to == CSHIM_TO_OWNER
            ? cshim_segment_message(exchange, segment, CSHIM_SEND_PARTS, owner)
            : cshim_segment_owned(exchange, segment, owner);
    uint8_t *end = message + CSHIM_HEADER_BYTES;
    cshim_message_write_header(exchange, segment, CSHIM_MESSAGE_PARTS, part.length, message);
    for (uint32_t i = 0; i < cshim_grid_depth(&plan->grid); i++) {
        const struct cshim_range piece =
            plan->grid.rows > 1 ? cshim_segment_piece_owned(exchange, segment, owner, i) : part;
        end += encode_range(exchange, segment, owner, &piece, end);
    }
    return (size_t)(end - message);
}

/* Encodes this rank's contribution to what it owns itself, unless that is added from the input. If
 * all receivers get the same message, this is also the one that is sent. Returns the bytes. */
static size_t encode_own_part(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->groups[CSHIM_ROW].rank;
    if (source_peer(exchange) != rank || cshim_plan_adds_at_home(exchange->plan))
        return 0;
    return encode_part(exchange, segment, rank,
                       cshim_segment_place(exchange, segment, CSHIM_SEND_PARTS, rank));
}

/* Posts all receives of a row or column. The outside owner of a column
 * (shim/core/grid.h) receives no sums. Returns an error of the transport. */
static int post_receives(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_dimension dimension)
{
    const struct cshim_peer_group *group = &exchange->groups[dimension];
    const bool takes_sums = dimension == CSHIM_ROW ? has_step(exchange, CSHIM_STEP_COLLECT) &&
                                                         gets_sums(exchange, group->rank)
                                                   : group->rank < (int)exchange->plan->grid.rows;
    int status = 0;
    for (int step = 1; step < group->ranks && status == 0; step++) {
        const int from = (group->rank + group->ranks - step) % group->ranks;
        status = cshim_message_receive(exchange, segment,
                                       cshim_transfer_of(dimension, CSHIM_RECEIVE_PARTS), from);
        if (status == 0 && takes_sums)
            status = cshim_message_receive(exchange, segment,
                                           cshim_transfer_of(dimension, CSHIM_RECEIVE_SUMS), from);
    }
    return status;
}

/* Sends to the next peer first, so that the ranks do not all send to the same one. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_peer_group *row = &exchange->groups[CSHIM_ROW];
    const bool is_for_owner = exchange->plan->schedule->parts_to == CSHIM_TO_OWNER;
    const unsigned transfers =
        exchange->plan->grid.rows > 1 ? CSHIM_TRANSFERS : CSHIM_ROW_TRANSFERS;
    for (unsigned i = 0; i < transfers; i++)
        exchange->communicator->transport->forget(exchange,
                                                  cshim_message_request(exchange, segment, i),
                                                  cshim_grid_places(&exchange->plan->grid));
    int status = post_receives(exchange, segment, CSHIM_ROW);
    if (status == 0 && exchange->groups[CSHIM_COLUMN].rank >= 0)
        status = post_receives(exchange, segment, CSHIM_COLUMN);
    size_t bytes = is_for_owner ? 0 : encode_own_part(exchange, segment);
    cshim_event_step(exchange, CSHIM_STEP_ENCODE);
    for (int step = 1; step < row->ranks && status == 0; step++) {
        const int to = (row->rank + step) % row->ranks;
        uint8_t *message = cshim_segment_place(exchange, segment, CSHIM_SEND_PARTS, to);
        if (cshim_segment_message(exchange, segment, CSHIM_SEND_PARTS, to).length == 0)
            continue;
        if (is_for_owner) {
            bytes = encode_part(exchange, segment, to, message);
            cshim_event_step(exchange, CSHIM_STEP_ENCODE);
        }
        status = cshim_message_send(exchange, segment, CSHIM_SEND_PARTS, message, to, bytes);
        cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    }
    if (is_for_owner) {
        encode_own_part(exchange, segment);
        cshim_event_step(exchange, CSHIM_STEP_ENCODE);
    }
    return status;
}

/* Adds the contributions to a range: into the output if nobody else receives the sum; otherwise
 * into an encoded message, and also into the output if this rank receives the sum and does not
 * decode its own (cshim_plan_adds_at_home). If the sum has another codec, it is encoded from the
 * output, whose elements have all been encoded before. Returns the bytes of the message, or 0. */
static size_t add_range(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        unsigned parts, const struct cshim_range *range, enum cshim_message kind,
                        uint8_t *sum)
{
    const struct cshim_plan *plan = exchange->plan;
    const void **encoded = exchange->communicator->parts;
    const enum cshim_codec_id codec = cshim_message_codec(plan, kind);
    uint8_t *target = cshim_segment_target(exchange, segment, range->begin);
    struct cshim_encoding encoding;
    if (!has_step(exchange, CSHIM_STEP_COLLECT)) {
        cshim_reduce(plan->codec, plan->dtype, encoded, parts, range->length, target, NULL);
        return 0;
    }
    cshim_message_write_header(exchange, segment, kind, range->length, sum);
    struct cshim_bounce bounce = cshim_bounce_begin(
        cshim_message_is_read_in_place(exchange) ? CSHIM_WRITING_SUM : CSHIM_WRITING_UNREAD,
        sum + CSHIM_HEADER_BYTES, cshim_encoded_bytes(codec, plan->dtype, range->length));
    const struct cshim_encoding *chosen =
        encoding_options(exchange, segment, kind, range->begin, &encoding);
    if (codec != plan->codec) {
        cshim_reduce(plan->codec, plan->dtype, encoded, parts, range->length, target, NULL);
        cshim_encode_with(codec, plan->dtype, target, range->length, chosen, bounce.encoded);
    } else {
        cshim_reduce_with(codec, plan->dtype, encoded, parts, range->length,
                          cshim_plan_adds_at_home(exchange->plan) && decodes(exchange) ? target
                                                                                       : NULL,
                          bounce.encoded, chosen);
    }
    const size_t bytes = cshim_message_bytes(exchange, kind, range->length, bounce.encoded);
    cshim_bounce_end(&bounce, bytes);
    return CSHIM_HEADER_BYTES + bytes;
}

/* Finds the contributions to this rank's elements, its own and the received ones, in index order.
 * Returns their number. */
static unsigned find_parts(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_dimension dimension)
{
    const struct cshim_peer_group *group = &exchange->groups[dimension];
    const enum cshim_transfer transfer = cshim_transfer_of(dimension, CSHIM_RECEIVE_PARTS);
    unsigned parts = 0;
    for (int from = 0; from < group->ranks; from++) {
        const struct cshim_range part = cshim_segment_message(exchange, segment, transfer, from);
        if (part.length == 0)
            continue; /* the outside owner of a column contributes nothing */
        exchange->communicator->parts[parts++] =
            from == group->rank && cshim_plan_adds_at_home(exchange->plan)
                ? cshim_segment_source(exchange, segment, from, part.begin)
                : cshim_message_elements(exchange, segment, transfer, from);
    }
    return parts;
}

/* Adds the contributions to each piece of this rank's chunk, and sends each sum to the piece's
 * owner in the column. Returns an error of the transport. */
static int add_pieces(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                      unsigned parts)
{
    const struct cshim_peer_group *column = &exchange->groups[CSHIM_COLUMN];
    const void **encoded = exchange->communicator->parts;
    int status = 0;
    for (int to = 0; to < column->ranks && status == 0; to++) {
        const struct cshim_range piece =
            cshim_segment_message(exchange, segment, CSHIM_SEND_COLUMN_PARTS, to);
        uint8_t *sum = cshim_segment_place(exchange, segment, CSHIM_SEND_COLUMN_PARTS, to);
        if (piece.length == 0)
            continue;
        const size_t bytes =
            add_range(exchange, segment, parts, &piece, CSHIM_MESSAGE_COLUMN_PARTS, sum);
        for (unsigned i = 0; i < parts; i++)
            encoded[i] =
                (const uint8_t *)encoded[i] +
                cshim_message_bytes(exchange, CSHIM_MESSAGE_PARTS, piece.length, encoded[i]);
        cshim_event_step(exchange, CSHIM_STEP_SUM);
        if (to != column->rank)
            status = cshim_message_send(exchange, segment, CSHIM_SEND_COLUMN_PARTS, sum, to, bytes);
        cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    }
    return status;
}

/* Appends the encoded elements of a received message to another one. Returns its end. */
static uint8_t *append_received(struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_transfer transfer,
                                int from, uint8_t *end)
{
    const uint64_t elements = cshim_segment_message(exchange, segment, transfer, from).length;
    if (elements == 0)
        return end;
    const uint8_t *encoded = cshim_message_elements(exchange, segment, transfer, from);
    if (exchange->failed != 0)
        return end;
    const size_t bytes =
        cshim_message_bytes(exchange, cshim_transfer_kind(transfer), elements, encoded);
    memcpy(end, encoded, bytes);
    return end + bytes;
}

/* Makes the message that is forwarded to all: from what the root of a broadcast sent to this rank,
 * or from the sums of the column. Returns the bytes. */
static size_t make_forward_message(struct cshim_exchange *exchange,
                                   const struct cshim_segment *segment)
{
    const int rank = exchange->groups[CSHIM_ROW].rank;
    uint8_t *message = cshim_segment_place(exchange, segment, CSHIM_SEND_SUMS, rank);
    uint8_t *end = message + CSHIM_HEADER_BYTES;
    if (has_step(exchange, CSHIM_STEP_FORWARD))
        for (int from = 0; from < exchange->groups[CSHIM_COLUMN].ranks; from++)
            end = append_received(exchange, segment, CSHIM_RECEIVE_COLUMN_SUMS, from, end);
    else
        end = append_received(exchange, segment, CSHIM_RECEIVE_PARTS, source_peer(exchange), end);
    cshim_message_write_header(exchange, segment, CSHIM_MESSAGE_SUMS,
                               cshim_segment_owned(exchange, segment, rank).length, message);
    return (size_t)(end - message);
}

/* Sends an encoded sum of `bytes` bytes to the peers of a row or column that receive it; not to the
 * outside owner of a column. Returns an error of the transport. */
static int send_sums(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                     enum cshim_dimension dimension, size_t bytes)
{
    const struct cshim_peer_group *group = &exchange->groups[dimension];
    const enum cshim_transfer transfer = cshim_transfer_of(dimension, CSHIM_SEND_SUMS);
    const uint8_t *sum = cshim_segment_place(exchange, segment, transfer, group->rank);
    int status = 0;
    for (int step = 1; step < group->ranks && status == 0; step++) {
        const int to = (group->rank + step) % group->ranks;
        if (dimension == CSHIM_ROW ? gets_sums(exchange, to) : to < (int)exchange->plan->grid.rows)
            status = cshim_message_send(exchange, segment, transfer, sum, to, bytes);
    }
    return status;
}

int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_dimension dimension, bool *done)
{
    const int rank = exchange->groups[dimension].rank;
    const enum cshim_transfer parts = cshim_transfer_of(dimension, CSHIM_RECEIVE_PARTS);
    const enum cshim_transfer sums = cshim_transfer_of(dimension, CSHIM_SEND_SUMS);
    const struct cshim_range added = cshim_segment_message(
        exchange, segment, parts, dimension == CSHIM_ROW ? source_peer(exchange) : 0);
    size_t bytes = 0;
    int status = cshim_message_complete(exchange, segment, parts, done);
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    if (status != 0 || !*done || added.length == 0)
        return status;
    if (has_step(exchange, CSHIM_STEP_SUM)) {
        const unsigned count = find_parts(exchange, segment, dimension);
        if (exchange->failed != 0)
            return exchange->failed;
        if (dimension == CSHIM_ROW && has_step(exchange, CSHIM_STEP_FORWARD))
            return add_pieces(exchange, segment, count);
        bytes = add_range(exchange, segment, count, &added, cshim_transfer_kind(sums),
                          cshim_segment_place(exchange, segment, sums, rank));
        cshim_event_step(exchange, CSHIM_STEP_SUM);
    } else if (has_step(exchange, CSHIM_STEP_COLLECT)) {
        bytes = make_forward_message(exchange, segment);
        if (exchange->failed != 0)
            return exchange->failed;
    }
    if (has_step(exchange, CSHIM_STEP_COLLECT)) {
        status = send_sums(exchange, segment, dimension, bytes);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    return status;
}

int cshim_steps_forward(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        bool *done)
{
    const int rank = exchange->groups[CSHIM_ROW].rank;
    int status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_COLUMN_SUMS, done);
    if (status == 0 && *done && cshim_segment_owned(exchange, segment, rank).length > 0) {
        const size_t bytes = make_forward_message(exchange, segment);
        status = exchange->failed;
        if (status == 0)
            status = send_sums(exchange, segment, CSHIM_ROW, bytes);
    }
    cshim_event_step(exchange, CSHIM_STEP_FORWARD);
    return status;
}

/* Decodes the chunks of all peers: sums, or contributions if nothing is reduced. This rank's own
 * chunk is decoded, too, unless it was added from the input. So the root of a broadcast gets the
 * rounded elements that all others get; if the codec does not round, it writes nothing, since its
 * buffer may be read-only. */
static void decode_segment(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_peer_group *row = &exchange->groups[CSHIM_ROW];
    const enum cshim_transfer transfer =
        has_step(exchange, CSHIM_STEP_COLLECT) ? CSHIM_RECEIVE_SUMS : CSHIM_RECEIVE_PARTS;
    const enum cshim_message kind = cshim_transfer_kind(transfer);
    if (plan->schedule->root_gives && source_peer(exchange) == row->rank &&
        cshim_plan_leaves_root(plan->codec))
        return;
    for (int from = 0; from < row->ranks; from++) {
        if (cshim_segment_message(exchange, segment, transfer, from).length == 0 ||
            (from == row->rank && cshim_plan_adds_at_home(exchange->plan)))
            continue;
        const uint8_t *encoded = cshim_message_elements(exchange, segment, transfer, from);
        if (exchange->failed != 0)
            return;
        for (uint32_t i = 0; i < cshim_grid_depth(&plan->grid); i++) {
            const struct cshim_range piece = cshim_segment_piece_owned(exchange, segment, from, i);
            cshim_decode(cshim_message_codec(plan, kind), plan->dtype, encoded, piece.length,
                         cshim_segment_target(exchange, segment, piece.begin));
            encoded += cshim_message_bytes(exchange, kind, piece.length, encoded);
        }
    }
}

/* Completes all sends of a segment. */
static int complete_sends(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          bool *done)
{
    const unsigned dimensions = exchange->groups[CSHIM_COLUMN].rank >= 0 ? 2 : 1;
    int status = 0;
    *done = true;
    for (unsigned dimension = 0; dimension < dimensions && status == 0 && *done; dimension++) {
        status = cshim_message_complete(exchange, segment,
                                        cshim_transfer_of(dimension, CSHIM_SEND_PARTS), done);
        if (status == 0 && *done && has_step(exchange, CSHIM_STEP_COLLECT))
            status = cshim_message_complete(exchange, segment,
                                            cshim_transfer_of(dimension, CSHIM_SEND_SUMS), done);
    }
    return status;
}

/* A blocking call decodes while its last messages are sent. A nonblocking exchange may run this
 * several times but must decode once, so it completes the sends first. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done)
{
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    if (status == 0 && *done && has_step(exchange, CSHIM_STEP_COLLECT)) {
        status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_SUMS, done);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    if (status != 0 || !*done)
        return status;
    if (decodes(exchange)) {
        decode_segment(exchange, segment);
        cshim_event_step(exchange, CSHIM_STEP_DECODE);
        if (exchange->failed != 0)
            return exchange->failed;
    }
    if (!exchange->nonblocking) {
        status = complete_sends(exchange, segment, done);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    return status;
}

/* Two conditions: a message is long enough that a copy costs more than the acknowledgement that it
 * was read; and a scratch slot is not overwritten too early. A slot is used again
 * CSHIM_SEGMENTS_IN_FLIGHT segments later. By then all peers have read it if each of them sends
 * something to all others in every segment, after reading: in all-reduces where all peers are
 * owners or all get all contributions. */
bool cshim_steps_may_share(const struct cshim_plan *plan)
{
    return plan->collective == CSHIM_ALLREDUCE && plan->piece_bytes >= SHARED_BYTES &&
           (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
            plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT);
}

/* Each rank sends an empty message to the others of its node after it has read everything. */
int cshim_steps_close(struct cshim_exchange *exchange, bool begins, bool *done)
{
    struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_transport *transport = communicator->transport;
    const unsigned peers = exchange->plan->peers;
    int status = 0, too_long;
    *done = true;
    if (begins) {
        transport->forget(exchange, 0, 2 * peers);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        for (unsigned peer = 0; peer < peers && status == 0; peer++) {
            if (cshim_message_scratch(exchange, (int)peer) == NULL)
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
        /* The others have read before what this rank writes next. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    return status;
}
