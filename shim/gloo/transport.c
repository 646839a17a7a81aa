/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/context.h"

#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"

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

static int receive(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind)
{
    struct cshim_gloo_call *call = call_of(exchange);
    struct cshim_gloo_buffer *buffer = open_buffer(call, buffer_of(exchange, request));
    if (buffer == NULL)
        return 1;
    return cshim_gloo_receive(buffer, from, slot_of(exchange, request, kind),
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
    return cshim_gloo_send(buffer, to, slot_of(exchange, request, kind),
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
    .sum = sum,
    .sum_narrowed = sum_narrowed,
    .maximum = maximum,
    .sum_at = sum_at,
    .abort = end_job,
};
