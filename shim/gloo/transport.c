/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "shim/core/log.h"

/* Below the tag, a slot has a bit for the kind of message and the rest for the segment. */
#define KIND_SHIFT 23
#define TAG_SHIFT 24

static struct cshim_gloo_call *call_of(const struct cshim_exchange *exchange)
{
    return (struct cshim_gloo_call *)exchange->communicator;
}

/* The buffer of a request. Requests with all peers lie behind each other. */
static unsigned buffer_of(const struct cshim_exchange *exchange, unsigned request)
{
    return request / exchange->plan->peers;
}

/* Messages of one kind between two ranks come in the order in which they were sent; a segment's
 * place in flight keeps those apart that are under way together. */
static uint64_t slot_of(const struct cshim_exchange *exchange, unsigned request,
                        enum cshim_message kind)
{
    const uint64_t place = buffer_of(exchange, request) / CSHIM_TRANSFERS;
    return CSHIM_GLOO_SLOT_CALL | (uint64_t)call_of(exchange)->arguments->tag << TAG_SHIFT |
           (uint64_t)kind << KIND_SHIFT | place;
}

/* The buffer of a message, made for the call's first one of its kind. NULL with an exception. */
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

static void forget(const struct cshim_exchange *exchange, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i += exchange->plan->peers)
        call_of(exchange)->pending[buffer_of(exchange, i)] = 0;
}

/* A peer's rank in the context. */
static int rank_of(const struct cshim_exchange *exchange, int peer)
{
    return exchange->plan->schedule->staged ? call_of(exchange)->across[peer] : peer;
}

static int receive(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind)
{
    struct cshim_gloo_call *call = call_of(exchange);
    struct cshim_gloo_buffer *buffer = open_buffer(call, buffer_of(exchange, request));
    if (buffer == NULL)
        return 1;
    return cshim_gloo_receive(buffer, rank_of(exchange, from), slot_of(exchange, request, kind),
                              (size_t)((uint8_t *)message - call->host.scratch), bytes,
                              &call->exception);
}

static int send(const struct cshim_exchange *exchange, unsigned request, const void *message,
                size_t bytes, int to, enum cshim_message kind)
{
    struct cshim_gloo_call *call = call_of(exchange);
    struct cshim_gloo_buffer *buffer = open_buffer(call, buffer_of(exchange, request));
    if (buffer == NULL)
        return 1;
    return cshim_gloo_send(buffer, rank_of(exchange, to), slot_of(exchange, request, kind),
                           (size_t)((const uint8_t *)message - call->host.scratch), bytes,
                           &call->exception);
}

/* gloo itself refuses a message that is longer than its place. */
static int complete(const struct cshim_exchange *exchange, unsigned first, unsigned count,
                    bool *done, int *too_long)
{
    struct cshim_gloo_call *call = call_of(exchange);
    const unsigned index = buffer_of(exchange, first);
    const unsigned transfer = index % CSHIM_TRANSFERS;
    const bool receives = transfer == CSHIM_RECEIVE_PARTS || transfer == CSHIM_RECEIVE_SUMS;
    struct cshim_gloo_buffer *buffer = call->buffers[index];
    const int64_t timeout = call->arguments->timeout;
    int status = 0;
    (void)count, (void)too_long;
    *done = true;
    for (; call->pending[index] > 0 && status == 0; call->pending[index]--)
        status = receives ? cshim_gloo_wait_received(buffer, timeout, NULL, &call->exception)
                          : cshim_gloo_wait_sent(buffer, timeout, &call->exception);
    return status;
}

/* Messages inside a node. Each rank sends one to every other rank of the node that gets any; the
 * lengths and places are in bytes, by local rank. */
struct inside {
    struct cshim_gloo_buffer *sent, *received;
    unsigned sending, receiving;
};

static int begin_inside(struct cshim_gloo_call *call, struct inside *inside, const void *source,
                        size_t source_bytes, void *target, size_t target_bytes)
{
    const void *context = call->arguments->context;
    *inside = (struct inside){.sending = 0};
    inside->sent =
        cshim_gloo_buffer_make(context, (void *)(uintptr_t)source, source_bytes, &call->exception);
    if (inside->sent != NULL)
        inside->received = cshim_gloo_buffer_make(context, target, target_bytes, &call->exception);
    return inside->received != NULL ? 0 : 1;
}

static int receive_inside(struct cshim_gloo_call *call, struct inside *inside, int local,
                          uint64_t slot, size_t offset, size_t bytes)
{
    if (bytes == 0 || local == call->host.layout.local_rank)
        return 0;
    inside->receiving++;
    return cshim_gloo_receive(inside->received, call->inside[local], slot, offset, bytes,
                              &call->exception);
}

static int send_inside(struct cshim_gloo_call *call, struct inside *inside, int local,
                       uint64_t slot, size_t offset, size_t bytes)
{
    if (bytes == 0 || local == call->host.layout.local_rank)
        return 0;
    inside->sending++;
    return cshim_gloo_send(inside->sent, call->inside[local], slot, offset, bytes,
                           &call->exception);
}

/* Waits for all messages, and frees the buffers. */
static int end_inside(struct cshim_gloo_call *call, struct inside *inside, int status)
{
    const int64_t timeout = call->arguments->timeout;
    for (; inside->receiving > 0 && status == 0; inside->receiving--)
        status = cshim_gloo_wait_received(inside->received, timeout, NULL, &call->exception);
    for (; inside->sending > 0 && status == 0; inside->sending--)
        status = cshim_gloo_wait_sent(inside->sent, timeout, &call->exception);
    cshim_gloo_buffer_free(inside->sent);
    cshim_gloo_buffer_free(inside->received);
    return status;
}

static uint64_t inside_slot(const struct cshim_gloo_call *call, enum cshim_message kind)
{
    return CSHIM_GLOO_SLOT_INSIDE | (uint64_t)call->arguments->tag << TAG_SHIFT |
           (uint64_t)kind << KIND_SHIFT;
}

/* Every rank sends each other rank the elements of its share, which adds them in rank order. */
static int reduce_inside(const struct cshim_exchange *exchange, const void *input, void *share,
                         const int *lengths)
{
    struct cshim_gloo_call *call = call_of(exchange);
    const struct cshim_layout *layout = &call->host.layout;
    const uint64_t slot = inside_slot(call, CSHIM_MESSAGE_PARTS);
    const size_t element = exchange->element_bytes;
    const size_t own = (size_t)lengths[layout->local_rank] * element;
    struct inside inside;
    size_t total = 0, place = 0;
    for (int i = 0; i < layout->local_ranks; i++)
        total += (size_t)lengths[i] * element;
    /* A part of each rank of the node, of which this rank's own stays empty. */
    uint8_t *parts = malloc((size_t)layout->local_ranks * own + 1);
    if (parts == NULL) { /* the other ranks are in the call */
        cshim_log(CSHIM_LOG_ERROR, "no memory for the sum of a node");
        _exit(1);
    }
    int status =
        begin_inside(call, &inside, input, total, parts, (size_t)layout->local_ranks * own);
    for (int i = 0; i < layout->local_ranks && status == 0; i++)
        status = receive_inside(call, &inside, i, slot, (size_t)i * own, own);
    for (int i = 0; i < layout->local_ranks && status == 0; i++) {
        const size_t bytes = (size_t)lengths[i] * element;
        const void *from =
            i == layout->local_rank ? (const uint8_t *)input + place : parts + (size_t)i * own;
        exchange->communicator->parts[i] = from;
        status = send_inside(call, &inside, i, slot, place, bytes);
        place += bytes;
    }
    status = end_inside(call, &inside, status);
    if (status == 0 && own > 0)
        cshim_reduce(CSHIM_CODEC_RAW, exchange->plan->dtype, exchange->communicator->parts,
                     (unsigned)layout->local_ranks, (size_t)lengths[layout->local_rank], share,
                     NULL);
    if (status == 0) /* to that of a failed call gloo may still write: it is lost */
        free(parts);
    return status;
}

static int gather_inside(const struct cshim_exchange *exchange, const void *share, void *output,
                         const int *lengths, const int *begins)
{
    struct cshim_gloo_call *call = call_of(exchange);
    const struct cshim_layout *layout = &call->host.layout;
    const uint64_t slot = inside_slot(call, CSHIM_MESSAGE_SUMS);
    const size_t element = exchange->element_bytes;
    const int last = layout->local_ranks - 1, rank = layout->local_rank;
    const size_t own = (size_t)lengths[rank] * element;
    struct inside inside;
    int status = begin_inside(call, &inside, share, own, output,
                              (size_t)(begins[last] + lengths[last]) * element);
    for (int i = 0; i < layout->local_ranks && status == 0; i++)
        status = receive_inside(call, &inside, i, slot, (size_t)begins[i] * element,
                                (size_t)lengths[i] * element);
    for (int i = 0; i < layout->local_ranks && status == 0; i++)
        status = send_inside(call, &inside, i, slot, 0, own);
    memcpy((uint8_t *)output + (size_t)begins[rank] * element, share, own);
    return end_inside(call, &inside, status);
}

static int sum(const struct cshim_exchange *exchange, const void *input, void *output,
               uint64_t count)
{
    struct cshim_gloo_call *call = call_of(exchange);
    return cshim_gloo_native(call->arguments, input, output, count, exchange->element_bytes, NULL,
                             &call->exception);
}

/* Reductions of our own, for gloo's all-reduce. */
static void add_parts(enum cshim_codec_id codec, enum cshim_dtype dtype, void *output,
                      const void *a, const void *b, size_t elements)
{
    enum { TILE = 1024 };
    const size_t bytes = cshim_dtype_bytes(dtype);
    double tile[TILE];
    for (size_t done = 0; done < elements; done += TILE) {
        const size_t length = elements - done < TILE ? elements - done : TILE;
        const void *parts[2] = {(const uint8_t *)a + done * bytes,
                                (const uint8_t *)b + done * bytes};
        cshim_reduce(codec, dtype, parts, 2, length, tile, NULL);
        memcpy((uint8_t *)output + done * bytes, tile, length * bytes);
    }
}

static void add_floats(void *output, const void *a, const void *b, size_t elements)
{
    add_parts(CSHIM_CODEC_RAW, CSHIM_FLOAT32, output, a, b, elements);
}

static void add_halves(void *output, const void *a, const void *b, size_t elements)
{
    add_parts(CSHIM_CODEC_RAW, CSHIM_FLOAT16, output, a, b, elements);
}

static void add_bfloats(void *output, const void *a, const void *b, size_t elements)
{
    add_parts(CSHIM_CODEC_RAW, CSHIM_BFLOAT16, output, a, b, elements);
}

static void add_doubles(void *output, const void *a, const void *b, size_t elements)
{
    add_parts(CSHIM_CODEC_RAW, CSHIM_FLOAT64, output, a, b, elements);
}

static void take_larger(void *output, const void *a, const void *b, size_t elements)
{
    const uint64_t *left = a, *right = b;
    uint64_t *larger = output;
    for (size_t i = 0; i < elements; i++)
        larger[i] = left[i] > right[i] ? left[i] : right[i];
}

static int sum_narrowed(const struct cshim_exchange *exchange, void *codes, uint64_t count,
                        enum cshim_dtype dtype)
{
    struct cshim_gloo_call *call = call_of(exchange);
    return cshim_gloo_native(call->arguments, codes, codes, count, cshim_dtype_bytes(dtype),
                             dtype == CSHIM_FLOAT32   ? add_floats
                             : dtype == CSHIM_FLOAT16 ? add_halves
                                                      : add_bfloats,
                             &call->exception);
}

static int maximum(const struct cshim_exchange *exchange, const uint64_t *own, uint64_t *largest,
                   int count)
{
    struct cshim_gloo_call *call = call_of(exchange);
    return cshim_gloo_native(call->arguments, own, largest, (uint64_t)count, sizeof *own,
                             take_larger, &call->exception);
}

/* All ranks get the sums: there are few of them. */
static int sum_at(const struct cshim_exchange *exchange, const double *values, double *sums,
                  int count, int root)
{
    struct cshim_gloo_call *call = call_of(exchange);
    (void)root;
    return cshim_gloo_native(call->arguments, values, sums, (uint64_t)count, sizeof *values,
                             add_doubles, &call->exception);
}

/* The other ranks learn of it as of any rank that has ended. */
static void end_job(const struct cshim_exchange *exchange)
{
    (void)exchange;
    _exit(1);
}

const struct cshim_transport cshim_gloo_transport = {
    .call_names =
        {
            [CSHIM_ALLREDUCE] = "gloo::allreduce",
            [CSHIM_REDUCE_SCATTER] = "gloo::reduce_scatter",
            [CSHIM_REDUCE] = "gloo::reduce",
            [CSHIM_ALLGATHER] = "gloo::allgather",
        },
    .forget = forget,
    .receive = receive,
    .send = send,
    .complete = complete,
    .reduce_inside = reduce_inside,
    .gather_inside = gather_inside,
    .sum = sum,
    .sum_narrowed = sum_narrowed,
    .maximum = maximum,
    .sum_at = sum_at,
    .abort = end_job,
};
