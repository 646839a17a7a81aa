/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/message.h"
#include "shim/host/watch.h"

/* Bits of a slot: the tag from CSHIM_GLOO_TAG_SHIFT on, two bits for the message type, the
 * function, and in the lowest bits the segment's index modulo CSHIM_SEGMENTS_IN_FLIGHT. */
#define FUNCTION_SHIFT 4
#define KIND_SHIFT 22

static struct cshim_gloo_call *call_of(const struct cshim_exchange *exchange)
{
    return (struct cshim_gloo_call *)exchange->communicator;
}

/* Returns the index of a request's buffer. The requests of one transfer and segment are
 * consecutive, and share a buffer. */
static unsigned buffer_of(const struct cshim_exchange *exchange, unsigned request)
{
    return request / cshim_grid_places(&exchange->plan->grid);
}

/* Returns the slot of a message. gloo delivers messages with one slot in the order in which they
 * were sent; segments that are in flight together have different slots. */
static uint64_t message_slot(const struct cshim_exchange *exchange, unsigned request,
                             enum cshim_message kind)
{
    const struct cshim_gloo_arguments *arguments = call_of(exchange)->arguments;
    const uint64_t place = buffer_of(exchange, request) % CSHIM_SEGMENTS_IN_FLIGHT;
    return CSHIM_GLOO_SLOT_CALL | (uint64_t)arguments->tag << CSHIM_GLOO_TAG_SHIFT |
           (uint64_t)kind << KIND_SHIFT | (uint64_t)arguments->function << FUNCTION_SHIFT | place;
}

/* Returns a buffer of a call, which it makes for the first message, and counts a message as
 * pending. Returns NULL, and stores an exception in the call, if that fails. */
static struct cshim_gloo_buffer *open_buffer(struct cshim_gloo_call *call, unsigned index)
{
    struct cshim_gloo_buffer **buffer = &call->buffers[index];
    if (*buffer == NULL)
        *buffer = cshim_gloo_buffer_make(call->arguments->context, call->host.scratch,
                                         CSHIM_SCRATCH_LIMIT, &call->exception);
    if (*buffer != NULL)
        call->pending[index]++;
    return *buffer;
}

void cshim_gloo_transport_end(struct cshim_gloo_call *call)
{
    for (unsigned i = 0; i < CSHIM_GLOO_BUFFERS; i++) {
        cshim_gloo_buffer_free(call->buffers[i]);
        call->buffers[i] = NULL;
        call->pending[i] = 0;
    }
}

/* Returns a peer's rank in the context. */
static int rank_of(const struct cshim_exchange *exchange, int peer)
{
    return exchange->plan->schedule->staged ? exchange->communicator->layout.across[peer] : peer;
}

/* Starts a message by `how`, which is cshim_gloo_receive or cshim_gloo_send. */
static int start_request(const struct cshim_exchange *exchange, unsigned request,
                         const void *message, size_t bytes, int peer, enum cshim_message kind,
                         int (*how)(struct cshim_gloo_buffer *buffer, int rank, uint64_t slot,
                                    size_t offset, size_t bytes, void **exception))
{
    struct cshim_gloo_call *call = call_of(exchange);
    struct cshim_gloo_buffer *buffer = open_buffer(call, buffer_of(exchange, request));
    return buffer == NULL ||
           how(buffer, rank_of(exchange, peer), message_slot(exchange, request, kind),
               (size_t)((const uint8_t *)message - call->host.scratch), bytes, &call->exception);
}

/* Starts to receive a message. Lets it be as long as the rest of the scratch: a message that is too
 * long comes from a rank that makes a different call, and gloo ends the process if a message
 * exceeds its buffer. The overwritten scratch does no harm, because the message's header fails the
 * call. */
static int receive(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind)
{
    const size_t offset = (size_t)((const uint8_t *)message - call_of(exchange)->host.scratch);
    (void)bytes;
    return start_request(exchange, request, message, CSHIM_SCRATCH_LIMIT - offset, from, kind,
                         cshim_gloo_receive);
}

static int send(const struct cshim_exchange *exchange, unsigned request, const void *message,
                size_t bytes, int to, enum cshim_message kind)
{
    return start_request(exchange, request, message, bytes, to, kind, cshim_gloo_send);
}

/* A wait for messages of a buffer. */
struct buffer_wait {
    struct cshim_wait watched; /* first, because wake() casts its address */
    struct cshim_gloo_buffer *buffer;
    bool receives;
};

/* Waits for one message that was sent from, or received in, a buffer that cshim_gloo_wake() does
 * not wake. Returns 0, or 1 after storing an exception, also if gloo was aborted. */
static int await_unwoken(int (*wait)(struct cshim_gloo_buffer *, int64_t, void **),
                         struct cshim_gloo_buffer *buffer, int64_t timeout, void **exception)
{
    const int status = wait(buffer, timeout, exception);
    if (status == CSHIM_GLOO_WOKEN && *exception == NULL)
        *exception = cshim_gloo_exception("gloo was aborted");
    return status != 0;
}

/* Makes gloo's wait return CSHIM_GLOO_WOKEN, perhaps not before a later wait on the same buffer. */
static void wake(struct cshim_wait *watched)
{
    const struct buffer_wait *wait = (const struct buffer_wait *)watched;
    cshim_gloo_wake(wait->buffer, wait->receives);
}

/* Number of times that gloo's wait may return early although nobody called wake(). After
 * gloo::abort() it does so each time. */
#define SPURIOUS_MAX 100

/* Waits for one message of a buffer. Reports the wait once if it becomes slow. */
static int await(const struct cshim_exchange *exchange, struct buffer_wait *wait)
{
    struct cshim_gloo_call *call = call_of(exchange);
    int64_t timeout = call->arguments->timeout;
    const double began = cshim_seconds();
    for (unsigned woken = 0; woken <= SPURIOUS_MAX; woken++) {
        const bool was_slow = __atomic_load_n(&wait->watched.is_slow, __ATOMIC_ACQUIRE);
        const int status = wait->receives
                               ? cshim_gloo_wait_received(wait->buffer, timeout, &call->exception)
                               : cshim_gloo_wait_sent(wait->buffer, timeout, &call->exception);
        if (status != CSHIM_GLOO_WOKEN)
            return status;
        if (!was_slow && __atomic_load_n(&wait->watched.is_slow, __ATOMIC_ACQUIRE))
            cshim_message_report_wait(exchange, exchange->communicator->rank, rank_of);
        const int64_t left = call->arguments->timeout - (int64_t)(1e3 * (cshim_seconds() - began));
        if (timeout > 0)
            timeout = left > 0 ? left : 1;
    }
    if (call->exception == NULL)
        call->exception = cshim_gloo_exception("gloo was aborted");
    return 1;
}

static int complete(const struct cshim_exchange *exchange, unsigned first, unsigned count,
                    bool *done, int *too_long)
{
    struct cshim_gloo_call *call = call_of(exchange);
    const unsigned index = buffer_of(exchange, first);
    struct buffer_wait wait = {
        .watched = {.since = cshim_seconds(), .on_slow = wake},
        .buffer = call->buffers[index],
        .receives = index / CSHIM_SEGMENTS_IN_FLIGHT % 2 == 0,
    };
    int status = 0;
    (void)count, (void)too_long;
    *done = true;
    if (call->pending[index] == 0)
        return 0;
    cshim_watch_begin(&wait.watched);
    for (; call->pending[index] > 0 && status == 0; call->pending[index]--)
        status = await(exchange, &wait);
    cshim_watch_end(&wait.watched);
    return status;
}

/* Exchanges messages with all other ranks of this node. CSHIM_MESSAGE_PARTS: sends each rank the
 * block of that rank's share, and receives contributions to this rank's share: those of local rank
 * i at index i of `target`. CSHIM_MESSAGE_SUMS: sends this rank's share to all, and receives their
 * shares at the shares' offsets in `target`. */
static int exchange_inside(const struct cshim_exchange *exchange, enum cshim_message kind,
                           const void *source, void *target, const struct cshim_range *block)
{
    struct cshim_gloo_call *call = call_of(exchange);
    const struct cshim_communicator *host = &call->host;
    const int *begins = host->share_begins, *lengths = host->share_lengths;
    const int last = host->layout.local_ranks - 1, rank = host->layout.local_rank;
    const bool adds = kind == CSHIM_MESSAGE_PARTS;
    const size_t element = exchange->element_bytes;
    const size_t own = cshim_range_within(block, lengths[rank]) * element;
    const size_t whole = (size_t)(begins[last] + lengths[last]) * element;
    const uint64_t slot = CSHIM_GLOO_SLOT_INSIDE |
                          (uint64_t)call->arguments->tag << CSHIM_GLOO_TAG_SHIFT |
                          (uint64_t)kind << KIND_SHIFT;
    const int64_t timeout = call->arguments->timeout;
    void **exception = &call->exception;
    struct cshim_gloo_buffer *sent = cshim_gloo_buffer_make(
        call->arguments->context, (void *)(uintptr_t)source, adds ? whole : own, exception);
    struct cshim_gloo_buffer *received = cshim_gloo_buffer_make(
        call->arguments->context, target, adds ? own * (size_t)(last + 1) : whole, exception);
    unsigned sending = 0, receiving = 0;
    int status = sent == NULL || received == NULL;
    for (int i = 0; i <= last && status == 0; i++) {
        const size_t begin = ((size_t)begins[i] + block->begin) * element;
        const size_t theirs = cshim_range_within(block, lengths[i]) * element;
        const size_t in = adds ? own : theirs, out = adds ? theirs : own;
        if (i == rank)
            continue;
        if (in > 0) {
            receiving++;
            status = cshim_gloo_receive(received, host->layout.inside[i], slot,
                                        adds ? (size_t)i * own : begin, in, exception);
        }
        if (out > 0 && status == 0) {
            sending++;
            status = cshim_gloo_send(sent, host->layout.inside[i], slot, adds ? begin : 0, out,
                                     exception);
        }
    }
    for (; receiving > 0 && status == 0; receiving--)
        status = await_unwoken(cshim_gloo_wait_received, received, timeout, exception);
    for (; sending > 0 && status == 0; sending--)
        status = await_unwoken(cshim_gloo_wait_sent, sent, timeout, exception);
    cshim_gloo_buffer_free(sent);
    cshim_gloo_buffer_free(received);
    return status;
}

static int spread_inside(const struct cshim_exchange *exchange, const void *input, void *parts,
                         const struct cshim_range *block)
{
    return exchange_inside(exchange, CSHIM_MESSAGE_PARTS, input, parts, block);
}

static int gather_inside(const struct cshim_exchange *exchange, const void *share, void *output)
{
    const struct cshim_communicator *host = exchange->communicator;
    const size_t element = exchange->element_bytes;
    const int rank = host->layout.local_rank;
    memcpy((uint8_t *)output + (size_t)host->share_begins[rank] * element, share,
           (size_t)host->share_lengths[rank] * element);
    return exchange_inside(exchange, CSHIM_MESSAGE_SUMS, share, output,
                           &(struct cshim_range){0, UINT64_MAX});
}

/* Calls gloo's own all-reduce, with `reduction`, or with the program's reduction if that is NULL.
 */
static int reduce_natively(const struct cshim_exchange *exchange, const void *input, void *output,
                           uint64_t count, enum cshim_dtype dtype, cshim_gloo_reduction reduction)
{
    struct cshim_gloo_call *call = call_of(exchange);
    return cshim_gloo_native(call->arguments, input, output, count, dtype, reduction,
                             &call->exception);
}

static int sum(const struct cshim_exchange *exchange, const void *input, void *output,
               uint64_t count)
{
    return reduce_natively(exchange, input, output, count, exchange->plan->dtype, NULL);
}

static int sum_narrowed(const struct cshim_exchange *exchange, void *codes, uint64_t count,
                        enum cshim_dtype dtype)
{
    return reduce_natively(exchange, codes, codes, count, dtype, cshim_add);
}

/* Takes the larger integer of each pair. gloo sees them as float64, which has the same size. */
static void take_larger(enum cshim_dtype dtype, void *output, const void *a, const void *b,
                        size_t count)
{
    const uint64_t *left = a, *right = b;
    uint64_t *larger = output;
    (void)dtype;
    for (size_t i = 0; i < count; i++)
        larger[i] = left[i] > right[i] ? left[i] : right[i];
}

/* Values of 8 bytes that reduce_values() reduces. */
struct values {
    const struct cshim_gloo_arguments *arguments;
    void *memory; /* rank 0: a row of values for each rank; elsewhere: own row, then the result */
    size_t bytes; /* size of a row */
    struct cshim_gloo_buffer *buffer;
    void **exception;
};

/* Receives a row from each rank from `first` to before `end`. */
static int receive_rows(const struct values *values, int first, int end)
{
    const uint64_t slot = CSHIM_GLOO_SLOT_VALUES |
                          (uint64_t)values->arguments->tag << CSHIM_GLOO_TAG_SHIFT |
                          (uint64_t)values->arguments->function << FUNCTION_SHIFT;
    int status = 0;
    for (int rank = first; rank < end && status == 0; rank++)
        status = cshim_gloo_receive(values->buffer, rank, slot,
                                    (size_t)(first > 0 ? rank : 1) * values->bytes, values->bytes,
                                    values->exception);
    for (int rank = first; rank < end && status == 0; rank++)
        status = await_unwoken(cshim_gloo_wait_received, values->buffer, values->arguments->timeout,
                               values->exception);
    return status;
}

/* Sends the first row to each rank from `first` to before `end`. */
static int send_rows(const struct values *values, int first, int end)
{
    const uint64_t slot = CSHIM_GLOO_SLOT_VALUES |
                          (uint64_t)values->arguments->tag << CSHIM_GLOO_TAG_SHIFT |
                          (uint64_t)values->arguments->function << FUNCTION_SHIFT;
    int status = 0;
    for (int rank = first; rank < end && status == 0; rank++)
        status = cshim_gloo_send(values->buffer, rank, slot, 0, values->bytes, values->exception);
    for (int rank = first; rank < end && status == 0; rank++)
        status = await_unwoken(cshim_gloo_wait_sent, values->buffer, values->arguments->timeout,
                               values->exception);
    return status;
}

/* Reduces 8-byte values of all ranks of a data-movement collective on rank 0, which sends the
 * result to all ranks. Does not call gloo's all-reduce: another thread of the program may be in an
 * all-reduce with this tag. Returns 0, or 1 after storing an exception. */
static int reduce_values(const struct cshim_gloo_arguments *arguments, const void *own,
                         void *result, uint64_t count, cshim_gloo_reduction reduction,
                         void **exception)
{
    const int ranks = arguments->ranks;
    const size_t rows = arguments->rank == 0 ? (size_t)ranks : 2;
    struct values values = {
        .arguments = arguments, .bytes = count * sizeof(uint64_t), .exception = exception};
    values.memory = calloc(rows, values.bytes);
    if (values.memory == NULL) {
        *exception = cshim_gloo_exception("no memory for the values of a call");
        return 1;
    }
    memcpy(values.memory, own, values.bytes);
    values.buffer =
        cshim_gloo_buffer_make(arguments->context, values.memory, rows * values.bytes, exception);
    uint8_t *rest = (uint8_t *)values.memory + values.bytes;
    int status = values.buffer == NULL;
    if (status == 0 && arguments->rank != 0) {
        status = send_rows(&values, 0, 1) || receive_rows(&values, 0, 1);
        memcpy(result, rest, values.bytes);
    } else if (status == 0) {
        status = receive_rows(&values, 1, ranks);
        for (int rank = 1; rank < ranks; rank++)
            reduction(CSHIM_FLOAT64, values.memory, values.memory,
                      rest + (size_t)(rank - 1) * values.bytes, count);
        memcpy(result, values.memory, values.bytes);
        status = status || send_rows(&values, 1, ranks);
    }
    cshim_gloo_buffer_free(values.buffer);
    if (status == 0) /* else gloo may still write to it */
        free(values.memory);
    return status;
}

/* Reduces values of 8 bytes of all ranks: in an all-reduce by gloo's own all-reduce, in data
 * movement by reduce_values(). */
static int add_values(const struct cshim_exchange *exchange, const void *own, void *result,
                      int count, cshim_gloo_reduction reduction)
{
    struct cshim_gloo_call *call = call_of(exchange);
    return call->arguments->collective == CSHIM_ALLREDUCE
               ? reduce_natively(exchange, own, result, (uint64_t)count, CSHIM_FLOAT64, reduction)
               : reduce_values(call->arguments, own, result, (uint64_t)count, reduction,
                               &call->exception);
}

int cshim_gloo_maximum(const struct cshim_gloo_arguments *arguments, uint64_t own,
                       uint64_t *largest, void **exception)
{
    return reduce_values(arguments, &own, largest, 1, take_larger, exception);
}

static int maximum(const struct cshim_exchange *exchange, const uint64_t *own, uint64_t *largest,
                   int count)
{
    return add_values(exchange, own, largest, count, take_larger);
}

/* Gives the sums to all ranks, not only to the root, because the sums are few. */
static int sum_at(const struct cshim_exchange *exchange, const double *values, double *sums,
                  int count, int root)
{
    (void)root;
    return add_values(exchange, values, sums, count, cshim_add);
}

/* Stores an exception in the call. The engine then closes the context's connections, so that the
 * call fails on all ranks. */
static int fail(const struct cshim_exchange *exchange, const char *why)
{
    struct cshim_gloo_call *call = call_of(exchange);
    if (call->exception == NULL)
        call->exception = cshim_gloo_exception(why);
    return 1;
}

const struct cshim_transport cshim_gloo_transport = {
    .call_names = {[CSHIM_ALLREDUCE] = "gloo::allreduce",
                   [CSHIM_ALLGATHER] = "gloo::allgather",
                   [CSHIM_ALLTOALL] = "gloo::alltoall",
                   [CSHIM_BROADCAST] = "gloo::broadcast"},
    .receive = receive,
    .send = send,
    .complete = complete,
    .spread_inside = spread_inside,
    .gather_inside = gather_inside,
    .sum = sum,
    .sum_narrowed = sum_narrowed,
    .maximum = maximum,
    .sum_at = sum_at,
    .abort = fail,
};
