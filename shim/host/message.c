/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/message.h"

#include <string.h>

#include "shim/core/log.h"

static enum cshim_message kind_of(enum cshim_transfer transfer)
{
    return transfer == CSHIM_RECEIVE_PARTS || transfer == CSHIM_SEND_PARTS ? CSHIM_MESSAGE_PARTS
                                                                           : CSHIM_MESSAGE_SUMS;
}

static size_t message_bytes(const struct cshim_exchange *exchange, uint64_t elements)
{
    return CSHIM_HEADER_BYTES +
           cshim_encoded_bytes(exchange->plan->codec, exchange->plan->dtype, elements);
}

/* The number of a transfer's request with peer 0; those with the other peers follow. */
static unsigned first_request(const struct cshim_exchange *exchange,
                              const struct cshim_segment *segment, enum cshim_transfer transfer)
{
    return segment->first_request + (unsigned)transfer * exchange->plan->peers;
}

void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, uint8_t *message)
{
    const struct cshim_header header = cshim_header_make(
        exchange->plan, exchange->sequence, segment->index, kind, elements, exchange->error);
    memcpy(message, &header, sizeof header);
}

void cshim_message_check_header(struct cshim_exchange *exchange,
                                const struct cshim_segment *segment, enum cshim_message kind,
                                uint64_t elements, const uint8_t *message, int from)
{
    const struct cshim_transport *transport = exchange->communicator->transport;
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, segment->index, kind, elements, 0);
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    cshim_log(CSHIM_LOG_ERROR, "%s does not match between rank %d and its peer %d: %s",
              transport->call_names[exchange->plan->collective], exchange->rank, from, text);
    transport->abort(exchange);
}

/* A message that is longer than its place comes from a rank that makes another call. It ends the
 * receive with an error, but its header may have come. The zeros make sure that no header of an
 * older message is taken for it. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                          enum cshim_transfer transfer, int from, uint64_t elements)
{
    uint8_t *message = cshim_segment_piece(exchange, segment, transfer, from);
    memset(message, 0, CSHIM_HEADER_BYTES);
    return exchange->communicator->transport->receive(
        exchange, first_request(exchange, segment, transfer) + (unsigned)from, message,
        message_bytes(exchange, elements), from, kind_of(transfer));
}

int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_segment *segment,
                       enum cshim_transfer transfer, const uint8_t *message, int to,
                       uint64_t elements)
{
    const size_t bytes = message_bytes(exchange, elements);
    const struct cshim_layout *layout = &exchange->communicator->layout;
    exchange->figures.bytes_wire += bytes;
    if (segment->stage != NULL || layout->node_of[to] != layout->node)
        exchange->figures.bytes_network += bytes;
    return exchange->communicator->transport->send(
        exchange, first_request(exchange, segment, transfer) + (unsigned)to, message, bytes, to,
        kind_of(transfer));
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
    cshim_message_check_header(exchange, segment, kind_of(transfer), elements,
                               cshim_segment_piece(exchange, segment, transfer, from), from);
}

int cshim_message_complete(struct cshim_exchange *exchange, const struct cshim_segment *segment,
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
