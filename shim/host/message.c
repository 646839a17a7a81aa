/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/message.h"

#include <stdio.h>
#include <string.h>

#include "policy/list.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/watch.h"
#include "shim/host/scratch.h"

/* Returns the number of the first request of a segment's transfer. */
static unsigned first_request(const struct cshim_exchange *exchange,
                              const struct cshim_flight *flight, unsigned transfer)
{
    return (transfer * CSHIM_SEGMENTS_IN_FLIGHT + flight->slot) *
           cshim_grid_places(&exchange->plan->grid);
}

/* Returns the transfer of an operation's messages. */
static unsigned transfer_of(const struct cshim_operation *operation)
{
    const bool sends =
        operation->kind == CSHIM_OPERATION_SEND || operation->kind == CSHIM_OPERATION_WAIT_SENT;
    return 2u * operation->message + sends;
}

size_t cshim_message_bytes(const struct cshim_exchange *exchange, enum cshim_message type,
                           uint64_t elements, const uint8_t *encoded)
{
    const enum cshim_codec_id codec = cshim_message_codec(exchange->plan, type);
    return cshim_codec_is_packed(codec)
               ? cshim_encoded_length(codec, exchange->plan->dtype, elements, encoded)
               : cshim_encoded_bytes(codec, exchange->plan->dtype, elements);
}

bool cshim_message_is_read_in_place(const struct cshim_exchange *exchange)
{
    return exchange->is_shared && cshim_scratch_is_shared(exchange->communicator->scratch);
}

const uint8_t *cshim_message_scratch(const struct cshim_exchange *exchange, uint32_t peer)
{
    return exchange->is_shared ? exchange->communicator->transport->scratch_of(exchange, (int)peer)
                               : NULL;
}

void cshim_message_write_header(const struct cshim_exchange *exchange,
                                const struct cshim_flight *flight,
                                const struct cshim_operation *operation)
{
    struct cshim_header header = cshim_header_make(
        exchange->plan, exchange->sequence, flight->segment.index,
        (enum cshim_message)operation->message, operation->elements, exchange->error);
    if (cshim_message_is_read_in_place(exchange))
        header.step |= CSHIM_HEADER_SHARED;
    memcpy(flight->scratch + operation->offset, &header, sizeof header);
}

/* Checks the header of a received message, and records the encoding error that its sender knows. If
 * the ranks disagree about the call, the program is wrong: prints both views of the call, and ends
 * the job or the call. `operation` is a RECEIVE or READ. */
static void check_header(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                         const struct cshim_operation *operation)
{
    const struct cshim_transport *transport = exchange->communicator->transport;
    char text[CSHIM_MISMATCH_MAX];
    float error;
    const uint8_t *message = flight->scratch + operation->offset;
    struct cshim_header want =
        cshim_header_make(exchange->plan, exchange->sequence, flight->segment.index,
                          (enum cshim_message)operation->message, operation->elements, 0);
    if (cshim_header_is_shared(message)) /* this bit may differ: it says how the elements travel */
        want.step |= CSHIM_HEADER_SHARED;
    if (cshim_header_check(&want, message, &error, text)) {
        exchange->error = error > exchange->error ? error : exchange->error;
        return;
    }
    char why[2 * CSHIM_MISMATCH_MAX];
    snprintf(why, sizeof why, "%s does not match between rank %d and its peer %u: %s",
             transport->call_names[exchange->plan->collective], exchange->communicator->rank,
             operation->peer, text);
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    exchange->failed = transport->abort(exchange, why);
}

/* Clears the header's memory first, so that the header of an older message is not taken for that of
 * this one. A message longer than its buffer comes from a rank that makes another call; with MPI
 * its receive ends with an error, but its header may have arrived. */
int cshim_message_receive(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                          const struct cshim_operation *operation)
{
    const struct cshim_plan *plan = exchange->plan;
    uint8_t *message = flight->scratch + operation->offset;
    memset(message, 0, CSHIM_HEADER_BYTES);
    return exchange->communicator->transport->receive(
        exchange, first_request(exchange, flight, transfer_of(operation)) + operation->index,
        message, operation->message < CSHIM_ROW_MESSAGES ? plan->piece_bytes : plan->column_bytes,
        (int)operation->peer, (enum cshim_message)operation->message);
}

int cshim_message_send(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                       const struct cshim_operation *operation, size_t bytes)
{
    const struct cshim_layout *layout = &exchange->communicator->layout;
    exchange->figures.bytes_wire += bytes;
    if (flight->stage != NULL || layout->node_of[operation->peer] != layout->node)
        exchange->figures.bytes_network += bytes;
    const bool is_read_here = cshim_message_is_read_in_place(exchange) &&
                              cshim_message_scratch(exchange, operation->peer) != NULL;
    if (exchange->is_shared) /* also orders reads of the peer's data before the message that reports
                                them */
        __atomic_thread_fence(__ATOMIC_RELEASE);
    return exchange->communicator->transport->send(
        exchange, first_request(exchange, flight, transfer_of(operation)) + operation->index,
        flight->scratch + operation->offset, is_read_here ? CSHIM_HEADER_BYTES : bytes,
        (int)operation->peer, (enum cshim_message)operation->message);
}

const uint8_t *cshim_message_elements(struct cshim_exchange *exchange,
                                      const struct cshim_flight *flight,
                                      const struct cshim_operation *operation)
{
    const uint8_t *message = flight->scratch + operation->offset;
    const uint8_t *scratch = cshim_message_scratch(exchange, operation->peer);
    if ((int)operation->peer != exchange->role.peer)
        check_header(exchange, flight, operation);
    if (scratch != NULL && cshim_header_is_shared(message)) {
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        message = scratch + (flight->scratch - exchange->communicator->scratch) +
                  operation->sender_offset;
    }
    return message + CSHIM_HEADER_BYTES;
}

/* Returns the flight's RECEIVE that belongs to a WAIT_RECEIVED and has index `index`, or NULL. */
static const struct cshim_operation *
find_receive(const struct cshim_flight *flight, const struct cshim_operation *wait, uint32_t index)
{
    const struct cshim_operations *operations = flight->operations;
    for (unsigned i = 0; i < operations->count; i++)
        if (operations->list[i].kind == CSHIM_OPERATION_RECEIVE &&
            operations->list[i].message == wait->message && operations->list[i].index == index)
            return &operations->list[i];
    return NULL;
}

/* Writes the names of the ranks whose messages for the awaited segment have not arrived. Leaves the
 * text unchanged if there are none, or if the segment waits for sends. */
static void name_missing(const struct cshim_exchange *exchange, char *ranks, size_t room,
                         int (*rank_of)(const struct cshim_exchange *exchange, int peer))
{
    const struct cshim_flight *flight = exchange->awaited;
    if (flight == NULL)
        return;
    const struct cshim_operation *wait = &flight->operations->list[flight->next];
    for (uint32_t i = 0; wait->kind == CSHIM_OPERATION_WAIT_RECEIVED && i < wait->parts; i++) {
        const struct cshim_operation *receive = find_receive(flight, wait, i);
        if (receive != NULL &&
            __atomic_load_n(flight->scratch + receive->offset, __ATOMIC_RELAXED) == 0)
            cshim_list_add(ranks, room, ", ", "rank %d", rank_of(exchange, (int)receive->peer));
    }
}

void cshim_message_report_wait(const struct cshim_exchange *exchange, int rank,
                               int (*rank_of)(const struct cshim_exchange *exchange, int peer))
{
    const struct cshim_plan *plan = exchange->plan;
    char ranks[200] = "";
    name_missing(exchange, ranks, sizeof ranks, rank_of);
    cshim_log(CSHIM_LOG_WARN,
              "rank %d has waited %d s for %s in a compressed %s of %llu x %s: a rank comes late, "
              "or passes the call through because its operation, type or size is another one; all "
              "ranks must make the same call",
              rank, CSHIM_SLOW_SECONDS, ranks[0] != '\0' ? ranks : "others",
              cshim_shapes[plan->collective].adds ? "sum" : "exchange",
              (unsigned long long)plan->count, cshim_dtype_name(plan->dtype));
}

int cshim_message_wait(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                       bool *done)
{
    const struct cshim_operation *wait = &flight->operations->list[flight->next];
    const struct cshim_operation *receive;
    int too_long = CSHIM_NO_PEER;
    exchange->awaited = flight;
    const int status = exchange->communicator->transport->complete(
        exchange, first_request(exchange, flight, transfer_of(wait)), wait->parts, done, &too_long);
    exchange->awaited = NULL;
    if (too_long != CSHIM_NO_PEER &&
        (receive = find_receive(flight, wait, (uint32_t)too_long)) != NULL)
        check_header(exchange, flight, receive);
    return status;
}

/* Shorter intervals are counted but not traced: a polling nonblocking call has very many. */
#define SHORTEST_SECONDS 2e-6

void cshim_phase_end(struct cshim_exchange *exchange, enum cshim_phase phase)
{
    const double began = exchange->mark, now = cshim_seconds(), seconds = now - began;
    exchange->mark = now;
    exchange->figures.seconds_of[phase] += seconds;
    struct cshim_trace *trace = exchange->communicator->job->trace;
    if (__builtin_expect(trace != NULL, 0) && seconds >= SHORTEST_SECONDS)
        cshim_trace_add(trace, (struct cshim_trace_event){.begin = began,
                                                          .seconds = seconds,
                                                          .call = exchange->sequence,
                                                          .kind = (uint8_t)phase});
}
