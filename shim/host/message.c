/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/message.h"

#include <stdio.h>
#include <string.h>

#include "shim/core/log.h"
#include "shim/host/watch.h"
#include "shim/host/scratch.h"

size_t cshim_message_bytes(const struct cshim_exchange *exchange, enum cshim_message kind,
                           uint64_t elements, const uint8_t *encoded)
{
    return cshim_encoded_length(cshim_message_codec(exchange->plan, kind), exchange->plan->dtype,
                                elements, encoded);
}

unsigned cshim_message_request(const struct cshim_exchange *exchange,
                               const struct cshim_segment *segment, enum cshim_transfer transfer)
{
    return ((unsigned)transfer * CSHIM_SEGMENTS_IN_FLIGHT + segment->slot) *
           cshim_grid_places(&exchange->plan->grid);
}

int cshim_message_peer(const struct cshim_exchange *exchange, enum cshim_dimension dimension,
                       int place)
{
    return (int)(dimension == CSHIM_ROW
                     ? exchange->first_of_row + (uint32_t)place
                     : cshim_grid_peer(&exchange->plan->grid, exchange->column, (uint32_t)place));
}

bool cshim_message_is_read_in_place(const struct cshim_exchange *exchange)
{
    return exchange->is_shared && cshim_scratch_is_shared(exchange->communicator->scratch);
}

const uint8_t *cshim_message_scratch(const struct cshim_exchange *exchange, int peer)
{
    return exchange->is_shared ? exchange->communicator->transport->scratch_of(exchange, peer)
                               : NULL;
}

void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, uint8_t *message)
{
    struct cshim_header header = cshim_header_make(exchange->plan, exchange->sequence,
                                                   segment->index, kind, elements, exchange->error);
    if (cshim_message_is_read_in_place(exchange))
        header.step |= CSHIM_HEADER_SHARED;
    memcpy(message, &header, sizeof header);
}

/* Checks the header of a received message, and keeps the encoding error that its sender knows. If
 * the ranks disagree about the call, the program is wrong: prints both views of the call, and ends
 * the job or the call. */
static void check_header(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                         enum cshim_transfer transfer, int from)
{
    const struct cshim_transport *transport = exchange->communicator->transport;
    const enum cshim_dimension dimension = cshim_transfer_dimension(transfer);
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const uint8_t *message = cshim_segment_place(exchange, segment, transfer, from);
    struct cshim_header want = cshim_header_make(
        exchange->plan, exchange->sequence, segment->index, cshim_transfer_kind(transfer),
        cshim_segment_message(exchange, segment, transfer, from).length, 0);
    if (cshim_header_is_shared(message)) /* not a property of the call */
        want.step |= CSHIM_HEADER_SHARED;
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    char why[2 * CSHIM_MISMATCH_MAX];
    snprintf(why, sizeof why, "%s does not match between rank %d and its peer %d: %s",
             transport->call_names[exchange->plan->collective],
             cshim_message_peer(exchange, dimension, exchange->groups[dimension].rank),
             cshim_message_peer(exchange, dimension, from), text);
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    exchange->failed = transport->abort(exchange, why);
}

/* A message that is longer than its buffer comes from a rank that makes another call. The receive
 * then ends with an error, but the header may have arrived. Clearing it first makes sure that the
 * header of an older message is not mistaken for it. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer transfer, int from)
{
    const struct cshim_plan *plan = exchange->plan;
    const enum cshim_dimension dimension = cshim_transfer_dimension(transfer);
    uint8_t *message = cshim_segment_place(exchange, segment, transfer, from);
    if (cshim_segment_message(exchange, segment, transfer, from).length == 0)
        return 0;
    memset(message, 0, CSHIM_HEADER_BYTES);
    return exchange->communicator->transport->receive(
        exchange, cshim_message_request(exchange, segment, transfer) + (unsigned)from, message,
        dimension == CSHIM_ROW ? plan->piece_bytes : plan->column_bytes,
        cshim_message_peer(exchange, dimension, from), cshim_transfer_kind(transfer));
}

int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer transfer, const uint8_t *message, int to, size_t bytes)
{
    const struct cshim_layout *layout = &exchange->communicator->layout;
    const int peer = cshim_message_peer(exchange, cshim_transfer_dimension(transfer), to);
    exchange->figures.bytes_wire += bytes;
    if (segment->stage != NULL || layout->node_of[peer] != layout->node)
        exchange->figures.bytes_network += bytes;
    const bool is_read_here =
        cshim_message_is_read_in_place(exchange) && cshim_message_scratch(exchange, peer) != NULL;
    if (exchange->is_shared) /* also before messages that say that the peer's data has been read */
        __atomic_thread_fence(__ATOMIC_RELEASE);
    return exchange->communicator->transport->send(
        exchange, cshim_message_request(exchange, segment, transfer) + (unsigned)to, message,
        is_read_here ? CSHIM_HEADER_BYTES : bytes, peer, cshim_transfer_kind(transfer));
}

const uint8_t *cshim_message_elements(struct cshim_exchange *exchange,
                                      const struct cshim_segment *segment,
                                      enum cshim_transfer transfer, int from)
{
    const enum cshim_dimension dimension = cshim_transfer_dimension(transfer);
    const uint8_t *message = cshim_segment_place(exchange, segment, transfer, from);
    const uint8_t *scratch =
        cshim_message_scratch(exchange, cshim_message_peer(exchange, dimension, from));
    if (from != exchange->groups[dimension].rank)
        check_header(exchange, segment, transfer, from);
    if (scratch != NULL && cshim_header_is_shared(message)) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        message = scratch + cshim_segment_place_at(exchange, segment, transfer, from);
    }
    return message + CSHIM_HEADER_BYTES;
}

/* Returns the next index after `place` whose awaited message has not begun to arrive, or -1. */
static int next_missing(const struct cshim_exchange *exchange, int place)
{
    const enum cshim_transfer transfer = (enum cshim_transfer)exchange->awaited_transfer;
    const struct cshim_peer_group *group = &exchange->groups[cshim_transfer_dimension(transfer)];
    if (exchange->awaited == NULL || transfer % CSHIM_ROW_TRANSFERS >= CSHIM_SEND_PARTS)
        return -1;
    for (place++; place < group->ranks; place++)
        if (place != group->rank &&
            cshim_segment_message(exchange, exchange->awaited, transfer, place).length > 0 &&
            __atomic_load_n(cshim_segment_place(exchange, exchange->awaited, transfer, place),
                            __ATOMIC_RELAXED) == 0)
            return place;
    return -1;
}

void cshim_message_report_wait(const struct cshim_exchange *exchange, int rank,
                               int (*rank_of)(const struct cshim_exchange *exchange, int peer))
{
    const struct cshim_plan *plan = exchange->plan;
    const enum cshim_dimension dimension =
        cshim_transfer_dimension((enum cshim_transfer)exchange->awaited_transfer);
    char ranks[200] = "";
    size_t length = 0;
    int from = -1;
    while ((from = next_missing(exchange, from)) >= 0 && length + 16 < sizeof ranks)
        length += (size_t)snprintf(
            ranks + length, sizeof ranks - length, "%srank %d", length > 0 ? ", " : "",
            rank_of(exchange, cshim_message_peer(exchange, dimension, from)));
    cshim_log(CSHIM_LOG_WARN,
              "rank %d has waited %d s for %s in a compressed %s of %llu x %s: a rank comes late, "
              "or passes the call through because its operation, type or size is another one; all "
              "ranks must make the same call",
              rank, CSHIM_SLOW_SECONDS, length > 0 ? ranks : "others",
              plan->collective <= CSHIM_REDUCE ? "sum" : "exchange",
              (unsigned long long)plan->count, cshim_dtype_name(plan->dtype));
}

int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                           enum cshim_transfer transfer, bool *done)
{
    int too_long = CSHIM_NO_PEER;
    exchange->awaited = segment;
    exchange->awaited_transfer = transfer;
    const int status = exchange->communicator->transport->complete(
        exchange, cshim_message_request(exchange, segment, transfer),
        (unsigned)exchange->groups[cshim_transfer_dimension(transfer)].ranks, done, &too_long);
    exchange->awaited = NULL;
    if (too_long != CSHIM_NO_PEER &&
        cshim_segment_message(exchange, segment, transfer, too_long).length > 0)
        check_header(exchange, segment, transfer, too_long);
    return status;
}
