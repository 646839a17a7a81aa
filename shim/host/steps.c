/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/steps.h"

#include <string.h>

#include "shim/host/detour.h"
#include "shim/host/message.h"
#include "shim/host/event.h"

/* Ranks of a node read each other's messages from this size on: shorter ones the libraries send at
 * once, while longer ones wait for their receiver first (btl_vader_eager_limit). */
#define SHARED_BYTES 4096u

static bool has(const struct cshim_exchange *exchange, enum cshim_step step)
{
    return cshim_schedule_has(exchange->plan->schedule, step);
}

static bool gets_sums(const struct cshim_exchange *exchange, int peer)
{
    return cshim_schedule_gets_sums(exchange->plan->schedule, (uint32_t)peer, exchange->root);
}

/* The peer whose elements this rank's own part has: itself, but in a broadcast the root. */
static int giver(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    return plan->schedule->root_gives ? (int)plan->root : exchange->lines[CSHIM_ROW].rank;
}

/* Whether sums come to this rank. */
static bool decodes(const struct cshim_exchange *exchange)
{
    return has(exchange, CSHIM_STEP_DECODE) &&
           (!has(exchange, CSHIM_STEP_COLLECT) ||
            gets_sums(exchange, exchange->lines[CSHIM_ROW].rank));
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
        encoding->residual = residual->kept[kind] + encoding->first;
    return encoding;
}

/* What a part for an owner is where it is encoded. Copies need no detour, and lossless codecs take
 * longer than any waiting. */
static enum cshim_writing writing_of(const struct cshim_exchange *exchange, int owner)
{
    const struct cshim_plan *plan = exchange->plan;
    bool is_read = cshim_message_is_read(exchange);
    if (plan->schedule->parts_to == CSHIM_TO_OWNER)
        is_read =
            is_read && owner != exchange->lines[CSHIM_ROW].rank &&
            cshim_message_scratch(exchange, cshim_message_peer(exchange, CSHIM_ROW, owner)) != NULL;
    return is_read && !cshim_codec_is_exact(plan->codec) ? CSHIM_WRITING_PART
                                                         : CSHIM_WRITING_UNREAD;
}

/* Encodes elements of this rank's part of what a peer of the row owns. Returns their bytes. */
static size_t encode_range(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           int owner, const struct cshim_range *range, uint8_t *place)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_encoding encoding;
    struct cshim_detour detour =
        cshim_detour_begin(writing_of(exchange, owner), place,
                           cshim_encoded_bytes(plan->codec, plan->dtype, range->length));
    cshim_encode_with(plan->codec, plan->dtype,
                      cshim_segment_source(exchange, segment, owner, range->begin), range->length,
                      options(exchange, segment, CSHIM_MESSAGE_PARTS, range->begin, &encoding),
                      detour.encoded);
    const size_t bytes =
        cshim_message_bytes(exchange, CSHIM_MESSAGE_PARTS, range->length, detour.encoded);
    cshim_detour_end(&detour, bytes);
    return bytes;
}

/* Encodes this rank's part of what a peer of the row owns, header first and piece by piece. Returns
 * its bytes. */
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

/* Encodes the part that this rank keeps, where a peer's would be, unless it is added at home; where
 * all receivers get the same part, it is also what is sent. Returns its bytes. */
static size_t encode_own_part(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->lines[CSHIM_ROW].rank;
    if (giver(exchange) != rank || cshim_plan_adds_at_home(exchange->plan))
        return 0;
    return encode_part(exchange, segment, rank,
                       cshim_segment_place(exchange, segment, CSHIM_SEND_PARTS, rank));
}

/* Posts all receives of a level. The owner outside a column gets no sums of it. */
static int post_receives(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_level level)
{
    const struct cshim_line *line = &exchange->lines[level];
    const bool takes_sums =
        level == CSHIM_ROW ? has(exchange, CSHIM_STEP_COLLECT) && gets_sums(exchange, line->rank)
                           : line->rank < (int)exchange->plan->grid.rows;
    int status = 0;
    for (int step = 1; step < line->ranks && status == 0; step++) {
        const int from = (line->rank + line->ranks - step) % line->ranks;
        status = cshim_message_receive(exchange, segment,
                                       cshim_transfer_of(level, CSHIM_RECEIVE_PARTS), from);
        if (status == 0 && takes_sums)
            status = cshim_message_receive(exchange, segment,
                                           cshim_transfer_of(level, CSHIM_RECEIVE_SUMS), from);
    }
    return status;
}

/* Each rank begins with the peer behind it, so that not all send to the same one. */
int cshim_steps_begin(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_line *row = &exchange->lines[CSHIM_ROW];
    const bool is_for_owner = exchange->plan->schedule->parts_to == CSHIM_TO_OWNER;
    const unsigned transfers =
        exchange->plan->grid.rows > 1 ? CSHIM_TRANSFERS : CSHIM_ROW_TRANSFERS;
    for (unsigned i = 0; i < transfers; i++)
        exchange->communicator->transport->forget(exchange,
                                                  cshim_message_request(exchange, segment, i),
                                                  cshim_grid_places(&exchange->plan->grid));
    int status = post_receives(exchange, segment, CSHIM_ROW);
    if (status == 0 && exchange->lines[CSHIM_COLUMN].rank >= 0)
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

/* Adds the parts of a range: into the output where the sum goes to nobody else, else into an
 * encoded sum, whose bytes it returns, and at home into both. One of another codec is made from the
 * output, whose elements have all been encoded. */
static size_t add_range(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        unsigned parts, const struct cshim_range *range, enum cshim_message kind,
                        uint8_t *sum)
{
    const struct cshim_plan *plan = exchange->plan;
    const void **encoded = exchange->communicator->parts;
    const enum cshim_codec_id codec = cshim_message_codec(plan, kind);
    uint8_t *target = cshim_segment_target(exchange, segment, range->begin);
    struct cshim_encoding encoding;
    if (!has(exchange, CSHIM_STEP_COLLECT)) {
        cshim_reduce(plan->codec, plan->dtype, encoded, parts, range->length, target, NULL);
        return 0;
    }
    cshim_message_write_header(exchange, segment, kind, range->length, sum);
    struct cshim_detour detour = cshim_detour_begin(
        cshim_message_is_read(exchange) ? CSHIM_WRITING_SUM : CSHIM_WRITING_UNREAD,
        sum + CSHIM_HEADER_BYTES, cshim_encoded_bytes(codec, plan->dtype, range->length));
    const struct cshim_encoding *chosen = options(exchange, segment, kind, range->begin, &encoding);
    if (codec != plan->codec) {
        cshim_reduce(plan->codec, plan->dtype, encoded, parts, range->length, target, NULL);
        cshim_encode_with(codec, plan->dtype, target, range->length, chosen, detour.encoded);
    } else {
        cshim_reduce_with(codec, plan->dtype, encoded, parts, range->length,
                          cshim_plan_adds_at_home(exchange->plan) && decodes(exchange) ? target
                                                                                       : NULL,
                          detour.encoded, chosen);
    }
    const size_t bytes = cshim_message_bytes(exchange, kind, range->length, detour.encoded);
    cshim_detour_end(&detour, bytes);
    return CSHIM_HEADER_BYTES + bytes;
}

/* Finds the parts of what this rank adds up: its own and all that have come, in the order of
 * places. Returns how many there are. */
static unsigned find_parts(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_level level)
{
    const struct cshim_line *line = &exchange->lines[level];
    const enum cshim_transfer transfer = cshim_transfer_of(level, CSHIM_RECEIVE_PARTS);
    unsigned parts = 0;
    for (int from = 0; from < line->ranks; from++) {
        const struct cshim_range part = cshim_segment_message(exchange, segment, transfer, from);
        if (part.length == 0)
            continue; /* from the owner outside */
        exchange->communicator->parts[parts++] =
            from == line->rank && cshim_plan_adds_at_home(exchange->plan)
                ? cshim_segment_source(exchange, segment, from, part.begin)
                : cshim_message_elements(exchange, segment, transfer, from);
    }
    return parts;
}

/* Adds the parts of each piece of the chunk that this rank's column has. The sums of the row are
 * its parts for the owners in the column. Returns an error of the transport. */
static int add_pieces(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                      unsigned parts)
{
    const struct cshim_line *column = &exchange->lines[CSHIM_COLUMN];
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

/* Appends to a message what another holds, as it came. Returns the end. */
static uint8_t *pass_on(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        enum cshim_transfer transfer, int from, uint8_t *end)
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

/* Makes of what came the message that all receive: of the part that the root of a broadcast gave to
 * this rank, or of the sums of the column. Returns its bytes. */
static size_t make_forwarded(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const int rank = exchange->lines[CSHIM_ROW].rank;
    uint8_t *message = cshim_segment_place(exchange, segment, CSHIM_SEND_SUMS, rank);
    uint8_t *end = message + CSHIM_HEADER_BYTES;
    if (has(exchange, CSHIM_STEP_FORWARD))
        for (int from = 0; from < exchange->lines[CSHIM_COLUMN].ranks; from++)
            end = pass_on(exchange, segment, CSHIM_RECEIVE_COLUMN_SUMS, from, end);
    else
        end = pass_on(exchange, segment, CSHIM_RECEIVE_PARTS, giver(exchange), end);
    cshim_message_write_header(exchange, segment, CSHIM_MESSAGE_SUMS,
                               cshim_segment_owned(exchange, segment, rank).length, message);
    return (size_t)(end - message);
}

/* Sends the encoded sum, of so many bytes, to the peers of a level that receive it. The owner
 * outside a column has no use of it. */
static int send_sums(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                     enum cshim_level level, size_t bytes)
{
    const struct cshim_line *line = &exchange->lines[level];
    const enum cshim_transfer transfer = cshim_transfer_of(level, CSHIM_SEND_SUMS);
    const uint8_t *sum = cshim_segment_place(exchange, segment, transfer, line->rank);
    int status = 0;
    for (int step = 1; step < line->ranks && status == 0; step++) {
        const int to = (line->rank + step) % line->ranks;
        if (level == CSHIM_ROW ? gets_sums(exchange, to) : to < (int)exchange->plan->grid.rows)
            status = cshim_message_send(exchange, segment, transfer, sum, to, bytes);
    }
    return status;
}

int cshim_steps_sum(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                    enum cshim_level level, bool *done)
{
    const int rank = exchange->lines[level].rank;
    const enum cshim_transfer parts = cshim_transfer_of(level, CSHIM_RECEIVE_PARTS);
    const enum cshim_transfer sums = cshim_transfer_of(level, CSHIM_SEND_SUMS);
    const struct cshim_range added =
        cshim_segment_message(exchange, segment, parts, level == CSHIM_ROW ? giver(exchange) : 0);
    size_t bytes = 0;
    int status = cshim_message_complete(exchange, segment, parts, done);
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    if (status != 0 || !*done || added.length == 0)
        return status;
    if (has(exchange, CSHIM_STEP_SUM)) {
        const unsigned count = find_parts(exchange, segment, level);
        if (exchange->failed != 0)
            return exchange->failed;
        if (level == CSHIM_ROW && has(exchange, CSHIM_STEP_FORWARD))
            return add_pieces(exchange, segment, count);
        bytes = add_range(exchange, segment, count, &added, cshim_transfer_kind(sums),
                          cshim_segment_place(exchange, segment, sums, rank));
        cshim_event_step(exchange, CSHIM_STEP_SUM);
    } else if (has(exchange, CSHIM_STEP_COLLECT)) {
        bytes = make_forwarded(exchange, segment);
        if (exchange->failed != 0)
            return exchange->failed;
    }
    if (has(exchange, CSHIM_STEP_COLLECT)) {
        status = send_sums(exchange, segment, level, bytes);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    return status;
}

int cshim_steps_forward(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                        bool *done)
{
    const int rank = exchange->lines[CSHIM_ROW].rank;
    int status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_COLUMN_SUMS, done);
    if (status == 0 && *done && cshim_segment_owned(exchange, segment, rank).length > 0) {
        const size_t bytes = make_forwarded(exchange, segment);
        status = exchange->failed;
        if (status == 0)
            status = send_sums(exchange, segment, CSHIM_ROW, bytes);
    }
    cshim_event_step(exchange, CSHIM_STEP_FORWARD);
    return status;
}

/* Decodes what every peer has of the segment: sums, or parts where nobody adds them up. This rank's
 * own are decoded like others', unless they have been added at home. The root of a broadcast takes
 * its own elements as all others get them; where they are the same it writes nothing, since its
 * buffer may be one that nobody can write to. */
static void decode(struct cshim_exchange *exchange, const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_line *row = &exchange->lines[CSHIM_ROW];
    const enum cshim_transfer transfer =
        has(exchange, CSHIM_STEP_COLLECT) ? CSHIM_RECEIVE_SUMS : CSHIM_RECEIVE_PARTS;
    const enum cshim_message kind = cshim_transfer_kind(transfer);
    if (plan->schedule->root_gives && giver(exchange) == row->rank &&
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

/* Whether all that was sent is gone. */
static int complete_sends(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          bool *done)
{
    const unsigned levels = exchange->lines[CSHIM_COLUMN].rank >= 0 ? 2 : 1;
    int status = 0;
    *done = true;
    for (unsigned level = 0; level < levels && status == 0 && *done; level++) {
        status = cshim_message_complete(exchange, segment,
                                        cshim_transfer_of(level, CSHIM_SEND_PARTS), done);
        if (status == 0 && *done && has(exchange, CSHIM_STEP_COLLECT))
            status = cshim_message_complete(exchange, segment,
                                            cshim_transfer_of(level, CSHIM_SEND_SUMS), done);
    }
    return status;
}

/* A caller that waits decodes while the last messages are sent. A nonblocking exchange comes here
 * several times, and must decode once. */
int cshim_steps_finish(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       bool *done)
{
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        status = complete_sends(exchange, segment, done);
    if (status == 0 && *done && has(exchange, CSHIM_STEP_COLLECT)) {
        status = cshim_message_complete(exchange, segment, CSHIM_RECEIVE_SUMS, done);
        cshim_event_step(exchange, CSHIM_STEP_COLLECT);
    }
    if (status != 0 || !*done)
        return status;
    if (decodes(exchange)) {
        decode(exchange, segment);
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

/* A shorter message costs less in a copy than in the word that it was read. What ranks read is
 * encoded anew CSHIM_SEGMENTS_IN_FLIGHT segments later. By then all peers are done with it if each
 * of them sends something to all others in every segment, behind what it reads: in an all-reduce
 * whose owners are all peers, or whose parts go to all. */
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
    }
    cshim_event_step(exchange, CSHIM_STEP_EXCHANGE);
    return status;
}
