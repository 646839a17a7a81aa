/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/exchange.h"

#include <string.h>

#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/bounce.h"
#include "shim/host/cast.h"
#include "shim/host/feedback.h"
#include "shim/host/message.h"
#include "shim/host/node.h"

/* A nonblocking exchange returns control to the program after this time. */
#define TURN_SECONDS 1e-3
/* Ranks of a node read each other's messages in place if the longest message of the call may have
 * at least this many bytes. Open MPI 4 sends shorter messages eagerly, and longer ones by a
 * rendezvous with the receiver (btl_vader_eager_limit). */
#define SHARED_BYTES 4096u

/* The message that is being written. */
struct open_message {
    const struct cshim_operation *begun; /* the MESSAGE operation that began it */
    uint8_t *end;
    enum cshim_writing writing;
};

/* Operations ----------------------------------------------------------------------------------- */

/* Returns the address from which an operation reads this rank's own elements. With blocks in
 * hierarchical, the node's sums for one peer are contiguous in the stage. */
static const uint8_t *source_of(const struct cshim_exchange *exchange,
                                const struct cshim_flight *flight,
                                const struct cshim_operation *operation, uint32_t peer)
{
    uint64_t element = operation->begin;
    if (flight->stage == NULL)
        return exchange->input + (flight->segment.share.begin + element - exchange->source.begin) *
                                     exchange->element_bytes;
    if (exchange->plan->schedule->division == CSHIM_BLOCKS)
        element = (uint64_t)exchange->communicator->chunk_begins[peer];
    return flight->stage + element * exchange->element_bytes;
}

/* Returns the address to which an operation writes results. With MPI_IN_PLACE, a result is written
 * only over elements that are already encoded, or that the same REDUCE reads (READ_OWN). */
static uint8_t *target_of(const struct cshim_exchange *exchange, const struct cshim_flight *flight,
                          const struct cshim_operation *operation)
{
    const uint64_t element =
        flight->segment.share.begin + operation->begin - exchange->result.begin;
    return exchange->plan->schedule->staged && exchange->plan->schedule->division != CSHIM_BLOCKS
               ? flight->stage + operation->begin * exchange->element_bytes
               : exchange->output + element * exchange->element_bytes;
}

/* Returns the options of an operation's encoding; NULL: none. */
static const struct cshim_encoding *encoding_options(const struct cshim_exchange *exchange,
                                                     const struct cshim_flight *flight,
                                                     const struct cshim_operation *operation,
                                                     struct cshim_encoding *encoding)
{
    const struct cshim_residual *residual = exchange->residual;
    if (!exchange->has_options)
        return NULL;
    *encoding = (struct cshim_encoding){
        .stochastic = exchange->plan->rule->stochastic,
        .key = exchange->keys[operation->message],
        .first = flight->segment.share.begin + operation->begin,
        .step = exchange->plan->step,
        .keep = exchange->plan->rule->keep,
    };
    if (residual != NULL)
        encoding->residual =
            cshim_feedback_values(residual, (enum cshim_message)operation->message) +
            encoding->first;
    return encoding;
}

/* Returns how the elements of a message are written. Contributions in raw, lossless and bounded use
 * no bounce buffer: raw is a copy itself, the others take longer than any wait for cache lines. */
static enum cshim_writing writing_of(const struct cshim_exchange *exchange,
                                     const struct cshim_operation *message)
{
    if (!cshim_message_is_read_in_place(exchange))
        return CSHIM_WRITING_UNREAD;
    if (message->message != CSHIM_MESSAGE_PARTS)
        return CSHIM_WRITING_SUM;
    const bool is_read = (message->options & CSHIM_FOR_ALL) != 0 ||
                         ((int)message->peer != exchange->role.peer &&
                          cshim_message_scratch(exchange, message->peer) != NULL);
    return is_read && !cshim_codec_is_exact(exchange->plan->codec) ? CSHIM_WRITING_PART
                                                                   : CSHIM_WRITING_UNREAD;
}

static void begin_message(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                          const struct cshim_operation *operation, struct open_message *open)
{
    cshim_message_write_header(exchange, flight, operation);
    open->begun = operation;
    open->end = flight->scratch + operation->offset + CSHIM_HEADER_BYTES;
    open->writing = writing_of(exchange, operation);
}

static struct cshim_bounce begin_bounce(const struct cshim_exchange *exchange,
                                        const struct cshim_operation *operation,
                                        const struct open_message *open)
{
    const enum cshim_codec_id codec =
        cshim_message_codec(exchange->plan, (enum cshim_message)operation->message);
    return cshim_bounce_begin(
        open->writing, open->end,
        cshim_encoded_bytes(codec, exchange->plan->dtype, operation->elements));
}

/* Moves what was encoded into the message, if it is elsewhere, and advances the message's end. */
static void end_bounce(const struct cshim_exchange *exchange,
                       const struct cshim_operation *operation, struct open_message *open,
                       const struct cshim_bounce *bounce)
{
    const size_t bytes = cshim_message_bytes(exchange, (enum cshim_message)operation->message,
                                             operation->elements, bounce->encoded);
    cshim_bounce_end(bounce, bytes);
    open->end += bytes;
}

static void encode(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                   const struct cshim_operation *operation, struct open_message *open)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_encoding encoding;
    const struct cshim_bounce bounce = begin_bounce(exchange, operation, open);
    cshim_encode_with(cshim_message_codec(plan, (enum cshim_message)operation->message),
                      plan->dtype,
                      (operation->options & CSHIM_FROM_RESULT) != 0
                          ? target_of(exchange, flight, operation)
                          : source_of(exchange, flight, operation, open->begun->peer),
                      operation->elements, encoding_options(exchange, flight, operation, &encoding),
                      bounce.encoded);
    end_bounce(exchange, operation, open, &bounce);
}

/* Moves the inputs past the range that was read. Only a grid reads a message range by range. */
static void advance_inputs(struct cshim_exchange *exchange, const struct cshim_operation *operation,
                           enum cshim_message type)
{
    const void **inputs = exchange->communicator->inputs;
    for (unsigned i = 0; i < operation->parts && exchange->plan->grid.rows > 1; i++)
        inputs[i] = (const uint8_t *)inputs[i] +
                    cshim_message_bytes(exchange, type, operation->elements, inputs[i]);
}

/* Adds the elements of all inputs, decoded with the codec of contributions, which a grid's row sums
 * have, too. */
static void reduce(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                   const struct cshim_operation *operation, struct open_message *open)
{
    const struct cshim_plan *plan = exchange->plan;
    const void **inputs = exchange->communicator->inputs;
    uint8_t *target =
        (operation->options & CSHIM_TO_RESULT) != 0 ? target_of(exchange, flight, operation) : NULL;
    if ((operation->options & CSHIM_TO_MESSAGE) == 0) {
        cshim_reduce(plan->codec, plan->dtype, inputs, operation->parts, operation->elements,
                     target, NULL);
    } else {
        struct cshim_encoding encoding;
        const struct cshim_bounce bounce = begin_bounce(exchange, operation, open);
        cshim_reduce_with(plan->codec, plan->dtype, inputs, operation->parts, operation->elements,
                          target, bounce.encoded,
                          encoding_options(exchange, flight, operation, &encoding));
        end_bounce(exchange, operation, open, &bounce);
    }
    advance_inputs(exchange, operation, CSHIM_MESSAGE_PARTS);
}

static void forward(struct cshim_exchange *exchange, const struct cshim_operation *operation,
                    struct open_message *open)
{
    const uint8_t *encoded = exchange->communicator->inputs[0];
    const size_t bytes = cshim_message_bytes(exchange, (enum cshim_message)operation->message,
                                             operation->elements, encoded);
    memcpy(open->end, encoded, bytes);
    open->end += bytes;
}

static void decode(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                   const struct cshim_operation *operation)
{
    const enum cshim_message type = (enum cshim_message)operation->message;
    cshim_decode(cshim_message_codec(exchange->plan, type), exchange->plan->dtype,
                 exchange->communicator->inputs[0], operation->elements,
                 target_of(exchange, flight, operation));
    advance_inputs(exchange, operation, type);
}

/* Executes the flight's next operation. Sets *done to false if it has to be executed again. Returns
 * 0 or a transport error. */
static int execute(struct cshim_exchange *exchange, const struct cshim_flight *flight,
                   struct open_message *open, bool *done)
{
    const struct cshim_operation *operation = &flight->operations->list[flight->next];
    const void **inputs = exchange->communicator->inputs;
    switch ((enum cshim_operation_kind)operation->kind) {
    case CSHIM_OPERATION_NODE_REDUCE:
        return cshim_node_reduce(exchange, flight);
    case CSHIM_OPERATION_RECEIVE:
        return cshim_message_receive(exchange, flight, operation);
    case CSHIM_OPERATION_MESSAGE:
        begin_message(exchange, flight, operation, open);
        return 0;
    case CSHIM_OPERATION_ENCODE:
        encode(exchange, flight, operation, open);
        return 0;
    case CSHIM_OPERATION_SEND:
        return cshim_message_send(exchange, flight, operation,
                                  (size_t)(open->end - (flight->scratch + operation->offset)));
    case CSHIM_OPERATION_WAIT_RECEIVED:
    case CSHIM_OPERATION_WAIT_SENT:
        return cshim_message_wait(exchange, flight, done);
    case CSHIM_OPERATION_READ:
        inputs[operation->parts] = cshim_message_elements(exchange, flight, operation);
        return exchange->failed;
    case CSHIM_OPERATION_READ_OWN:
        inputs[operation->parts] =
            source_of(exchange, flight, operation, (uint32_t)exchange->role.peer);
        return 0;
    case CSHIM_OPERATION_REDUCE:
        reduce(exchange, flight, operation, open);
        return 0;
    case CSHIM_OPERATION_FORWARD:
        forward(exchange, operation, open);
        return 0;
    case CSHIM_OPERATION_DECODE:
        decode(exchange, flight, operation);
        return 0;
    case CSHIM_OPERATION_NODE_GATHER:
        return cshim_node_gather(exchange, flight);
    case CSHIM_OPERATION_KINDS:
        break;
    }
    return 0;
}

/* Segments ------------------------------------------------------------------------------------- */

/* Returns the phase that the time of an operation counts as. */
static enum cshim_phase phase_of(const struct cshim_operation *operation)
{
    const unsigned kind = operation->kind;
    if (kind == CSHIM_OPERATION_MESSAGE || kind == CSHIM_OPERATION_ENCODE)
        return CSHIM_PHASE_ENCODE;
    if (kind == CSHIM_OPERATION_READ || kind == CSHIM_OPERATION_READ_OWN ||
        kind == CSHIM_OPERATION_REDUCE || kind == CSHIM_OPERATION_DECODE)
        return CSHIM_PHASE_DECODE;
    return CSHIM_PHASE_EXCHANGE;
}

/* Starts a segment. Returns 0 or a transport error. */
static int start_flight(struct cshim_exchange *exchange, struct cshim_flight *flight,
                        uint64_t index)
{
    struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    flight->segment = cshim_segment_at(&exchange->role, index);
    flight->slot = (unsigned)(index % CSHIM_SEGMENTS_IN_FLIGHT);
    flight->operations = cshim_lists_find(&communicator->lists, &flight->segment);
    flight->next = 0;
    flight->scratch = communicator->scratch + flight->slot * plan->slot_bytes;
    flight->stage =
        plan->schedule->staged ? flight->scratch + plan->slot_bytes - plan->stage_bytes : NULL;
    if (flight->operations == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for the operations of a call");
        return communicator->transport->abort(exchange, "no memory for the operations of a call");
    }
    return 0;
}

/* Executes the operations of a segment that are due `age` pipeline iterations after its start. Sets
 * *done to false if it has to be called again. Returns 0 or a transport error. */
static int advance_flight(struct cshim_exchange *exchange, struct cshim_flight *flight,
                          unsigned age, bool *done)
{
    const struct cshim_operations *operations = flight->operations;
    struct open_message open = {.end = flight->scratch};
    enum cshim_phase phase = CSHIM_PHASE_EXCHANGE;
    int status = 0;
    *done = true;
    while (flight->next < operations->count && operations->list[flight->next].depth <= age) {
        const enum cshim_phase next = phase_of(&operations->list[flight->next]);
        if (next != phase)
            cshim_phase_end(exchange, phase);
        phase = next;
        status = execute(exchange, flight, &open, done);
        if (status != 0 || !*done)
            break;
        flight->next++;
    }
    cshim_phase_end(exchange, phase);
    return status;
}

/* The call ------------------------------------------------------------------------------------- */

/* Returns true if ranks of a node may read each other's messages in place, in the sender's scratch.
 * Two conditions: a message is long enough that a copy costs more than the acknowledgement that it
 * was read; and a scratch slot is not overwritten too early. A slot is used again
 * CSHIM_SEGMENTS_IN_FLIGHT segments later. By then all peers have read it if each of them sends
 * something to all others in every segment, after reading: in all-reduces where all peers are
 * owners or all get all contributions. */
static bool may_share(const struct cshim_plan *plan)
{
    return plan->collective == CSHIM_ALLREDUCE && plan->piece_bytes >= SHARED_BYTES &&
           (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
            plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT);
}

/* Waits, after the last segment, until no rank reads this rank's scratch any more: each rank sends
 * an empty message to the others of its node after it has read everything. Starts the messages if
 * exchange->age is 0, otherwise completes them. */
static int close_messages(struct cshim_exchange *exchange, bool *done)
{
    struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_transport *transport = communicator->transport;
    const unsigned peers = exchange->plan->peers;
    int status = 0, too_long;
    *done = true;
    if (exchange->age == 0) {
        __atomic_thread_fence(__ATOMIC_RELEASE);
        for (unsigned peer = 0; peer < peers && status == 0; peer++) {
            if (cshim_message_scratch(exchange, peer) == NULL)
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
        /* Orders the others' reads before this rank's next writes. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    cshim_phase_end(exchange, CSHIM_PHASE_EXCHANGE);
    return status;
}

/* Executes the due operations of the segment that was started exchange->age pipeline iterations
 * ago; in one more iteration at the end, waits until no rank reads this rank's shared memory any
 * more. Sets *done to false if it has to be called again. Returns 0 or a transport error. */
static int advance_segment(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t iteration = exchange->iteration, index = iteration - exchange->age;
    struct cshim_flight *flight = &exchange->flights[index % CSHIM_SEGMENTS_IN_FLIGHT];
    int status = 0;
    *done = true;
    if (iteration == exchange->plan->segments + CSHIM_PIPELINE_DEPTH) {
        if (exchange->is_shared)
            return close_messages(exchange, done);
        return exchange->age == 0 ? cshim_node_close(exchange) : 0;
    }
    if (exchange->age > iteration || index >= exchange->plan->segments)
        return 0;
    if (exchange->age == 0)
        status = start_flight(exchange, flight, index);
    return status == 0 ? advance_flight(exchange, flight, exchange->age, done) : status;
}

void cshim_exchange_set_ranges(struct cshim_exchange *exchange, bool in_place)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t *begins = communicator->block_begins;
    const int rank = communicator->rank, ranks = communicator->ranks;
    exchange->source = exchange->result = (struct cshim_range){0, plan->count};
    if (plan->collective == CSHIM_ALLTOALL) {
        exchange->source.length = communicator->sent_begins[ranks];
        exchange->result.length = begins[ranks];
    } else if (plan->schedule->division == CSHIM_BLOCKS) {
        const struct cshim_range own = {begins[rank], begins[rank + 1] - begins[rank]};
        if (plan->collective == CSHIM_REDUCE_SCATTER)
            exchange->result = own;
        else
            exchange->source = own;
        if (in_place && plan->collective != CSHIM_REDUCE_SCATTER)
            exchange->input += own.begin * exchange->element_bytes;
    } else if (plan->collective == CSHIM_REDUCE && plan->root != (uint32_t)rank) {
        exchange->result.length = 0;
    } else if (plan->collective == CSHIM_BROADCAST && plan->root != (uint32_t)rank) {
        exchange->source.length = 0;
    }
}

void cshim_exchange_begin(struct cshim_exchange *exchange)
{
    const struct cshim_communicator *communicator = exchange->communicator;
    exchange->role = (struct cshim_role){
        .plan = exchange->plan,
        .layout = &communicator->layout,
        .rank = communicator->rank,
        .block_begins = communicator->block_begins,
        .sent_begins = communicator->sent_begins,
    };
    cshim_role_find(&exchange->role);
    exchange->is_shared = communicator->transport->scratch_of != NULL &&
                          communicator->layout.local_ranks > 1 && may_share(exchange->plan);
    exchange->is_shared_inside = exchange->plan->schedule->staged && cshim_node_may_share(exchange);
    if (communicator->transport->forget != NULL)
        communicator->transport->forget(exchange);
}

int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done)
{
    const uint64_t iterations = exchange->plan->segments + CSHIM_PIPELINE_DEPTH +
                                (exchange->is_shared || exchange->is_shared_inside);
    int status = 0;
    *done = true;
    if (exchange->nonblocking)
        exchange->mark = cshim_seconds(); /* excludes the program's time since the last advance */
    const double deadline = exchange->mark + TURN_SECONDS;
    while (exchange->iteration < iterations) {
        status = advance_segment(exchange, done);
        if (status != 0 || !*done)
            return status;
        if (++exchange->age > CSHIM_PIPELINE_DEPTH) {
            exchange->age = 0;
            exchange->iteration++;
        }
        if (exchange->nonblocking && cshim_seconds() > deadline) {
            *done = exchange->iteration == iterations;
            return status;
        }
    }
    return status;
}

int cshim_exchange_run(struct cshim_exchange *exchange)
{
    bool done;
    exchange->mark = cshim_seconds();
    if (exchange->plan->algorithm == CSHIM_ALGORITHM_CAST)
        return cshim_cast_run(exchange);
    cshim_exchange_begin(exchange);
    return cshim_exchange_advance(exchange, &done);
}
