/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: streams. Each is a thread that runs its operations in order. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/nccl/standin/cuda_internal.h"

static uint64_t streams_made;

double standin_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct standin_op *standin_op_new(const char *name, CUresult (*run)(void *, uint64_t),
                                  void (*release)(void *), void *payload)
{
    struct standin_op *op = standin_zeros(sizeof *op);
    *op = (struct standin_op){name, run, NULL, NULL, release, payload, 1};
    return op;
}

void standin_op_free(struct standin_op *op)
{
    if (__atomic_sub_fetch(&op->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (op->release != NULL)
        op->release(op->payload);
    free(op);
}

/* The clock of STANDIN_CLOCK --------------------------------------------------------------------
 */
static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool is_read, is_set;
    double microseconds, mib;
} clock_model;

static _Thread_local CUstream own_stream; /* stream of this thread */

/* Reads STANDIN_CLOCK once; clock_lock is held. */
static void read_clock(void)
{
    const char *text = getenv("STANDIN_CLOCK");
    if (clock_model.is_read)
        return;
    clock_model.is_read = true;
    clock_model.is_set =
        text != NULL && sscanf(text, "%lf,%lf", &clock_model.microseconds, &clock_model.mib) == 2;
}

STANDIN_EXPORT void standin_set_clock(double microseconds, double mib)
{
    pthread_mutex_lock(&clock_lock);
    clock_model.is_read = clock_model.is_set = true;
    clock_model.microseconds = microseconds;
    clock_model.mib = mib;
    pthread_mutex_unlock(&clock_lock);
}

bool standin_clock_is_set(void)
{
    pthread_mutex_lock(&clock_lock);
    read_clock();
    const bool is_set = clock_model.is_set;
    pthread_mutex_unlock(&clock_lock);
    return is_set;
}

void standin_spend(double operations, size_t bytes)
{
    if (own_stream == NULL || !standin_clock_is_set())
        return;
    pthread_mutex_lock(&clock_lock);
    own_stream->time += 1e-6 * operations * clock_model.microseconds +
                        (double)bytes / (clock_model.mib * 1024 * 1024);
    pthread_mutex_unlock(&clock_lock);
}

double standin_stream_seconds(void)
{
    return own_stream != NULL && standin_clock_is_set() ? own_stream->time : standin_seconds();
}

/* The threads ---------------------------------------------------------------------------------- */
static void be_late(CUstream stream)
{
    const uint64_t most = (uint64_t)standin_setting("STANDIN_DELAY_US", 0);
    if (most == 0)
        return;
    stream->random = stream->random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t microseconds = (stream->random >> 33) % (most + 1);
    const struct timespec pause = {(time_t)(microseconds / 1000000),
                                   (long)(microseconds % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

static void run_one(CUstream stream, struct standin_entry *entry)
{
    be_late(stream);
    CUresult status = CUDA_SUCCESS;
    standin_running = entry;
    if (__atomic_load_n(&stream->context->error, __ATOMIC_ACQUIRE) == CUDA_SUCCESS)
        status = entry->op->run(entry->op->payload, entry->ticket);
    standin_order_log(entry);
    if (status != CUDA_SUCCESS) {
        fprintf(stderr, "standin libcuda: %s on stream %llu of device %d failed: error %d\n",
                entry->op->name, (unsigned long long)stream->number, stream->context->device,
                (int)status);
        standin_context_fail(stream->context, status);
    }
    standin_running = NULL;
    standin_op_free(entry->op);
    free(entry);
}

static void *work(void *argument)
{
    CUstream stream = argument;
    own_stream = stream;
    pthread_mutex_lock(&standin_lock);
    for (;;) {
        while (stream->first != NULL && stream->completed < stream->released) {
            struct standin_entry *entry = stream->first;
            stream->first = entry->next;
            pthread_mutex_unlock(&standin_lock);
            run_one(stream, entry);
            pthread_mutex_lock(&standin_lock);
            stream->completed++;
            pthread_cond_broadcast(&standin_progress);
        }
        if (stream->closing && stream->first == NULL)
            break;
        pthread_cond_wait(&stream->work, &standin_lock);
    }
    pthread_mutex_unlock(&standin_lock);
    return NULL;
}

CUstream standin_stream_new(CUcontext context, unsigned flags)
{
    CUstream stream = standin_zeros(sizeof *stream);
    stream->magic = STANDIN_STREAM;
    stream->context = context;
    stream->flags = flags;
    stream->number = __atomic_fetch_add(&streams_made, 1, __ATOMIC_RELAXED);
    stream->random = ((uint64_t)standin_setting("STANDIN_SEED", 1) << 16) + stream->number;
    stream->released = standin_setting("STANDIN_LAZY", 0) != 0 ? 0 : UINT64_MAX;
    pthread_cond_init(&stream->work, NULL);

    sigset_t all, before; /* signals are left to the program's threads */
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, work, stream) != 0)
        abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return stream;
}

/* Queues. The caller holds the lock, except in run_wait() and standin_enqueue(). --------------- */
void standin_append(CUstream stream, struct standin_op *op)
{
    struct standin_entry *entry = standin_zeros(sizeof *entry);
    entry->op = op;
    entry->ticket = op->prepare != NULL ? op->prepare(op->payload) : 0;
    standin_order_next(stream, entry);
    if (op->order != NULL)
        op->order(op->payload, stream);
    if (stream->first == NULL)
        stream->first = entry;
    else
        stream->last->next = entry;
    stream->last = entry;
    stream->enqueued++;
    pthread_cond_signal(&stream->work);
}

struct wait {
    CUstream stream;
    uint64_t position;
    const struct standin_record *record; /* record of the event that is waited for, or NULL */
};

static CUresult run_wait(void *payload, uint64_t ticket)
{
    const struct wait *wait = payload;
    (void)ticket;
    pthread_mutex_lock(&standin_lock);
    while (wait->stream->completed < wait->position)
        pthread_cond_wait(&standin_progress, &standin_lock);
    if (wait->record != NULL && standin_clock_is_set() && own_stream->time < wait->record->seconds)
        own_stream->time = wait->record->seconds;
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

void standin_append_wait(CUstream stream, CUstream other, uint64_t position,
                         const struct standin_clock *clock, const struct standin_record *record)
{
    standin_order_after(stream, clock);
    if (stream == other || (other->completed >= position && !standin_clock_is_set()))
        return;
    struct wait *wait = standin_zeros(sizeof *wait);
    *wait = (struct wait){other, position, record};
    standin_append(stream, standin_op_new("wait for another stream", run_wait, free, wait));
}

/* Makes the next operation of a stream follow the order of the legacy stream, which waits for all
 * blocking streams of the context, and they for it. */
static void follow_legacy_order(CUstream stream)
{
    CUcontext context = stream->context;
    if (stream == context->legacy) {
        for (CUstream other = context->streams; other != NULL; other = other->next)
            if ((other->flags & CU_STREAM_NON_BLOCKING) == 0)
                standin_append_wait(stream, other, other->enqueued, &other->clock, NULL);
    } else if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
        standin_append_wait(stream, context->legacy, context->legacy->enqueued,
                            &context->legacy->clock, NULL);
    }
}

CUresult standin_push(CUstream stream, struct standin_op *op)
{
    CUresult status = stream->context->error;
    if (status == CUDA_SUCCESS && stream->capture != NULL)
        return standin_capture_push(stream, op);
    if (status == CUDA_SUCCESS && stream == stream->context->legacy)
        status = standin_capture_implicit(stream->context);
    if (status != CUDA_SUCCESS) {
        standin_op_free(op);
        return status;
    }
    follow_legacy_order(stream);
    standin_append(stream, op);
    return CUDA_SUCCESS;
}

CUresult standin_enqueue(CUstream stream, struct standin_op *op)
{
    pthread_mutex_lock(&standin_lock);
    const CUresult status = standin_push(stream, op);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

/* All streams of the process but the legacy ones, for standin_release_all. The entry of a destroyed
 * stream is reused. */
enum { STREAMS_MAX = 4096 };
static CUstream known[STREAMS_MAX];
static int known_count;

static void remember_stream(CUstream stream)
{
    for (int i = 0; i < known_count; i++)
        if (known[i] == stream || known[i]->magic != STANDIN_STREAM) {
            known[i] = stream;
            return;
        }
    if (known_count == STREAMS_MAX) {
        fprintf(stderr, "standin libcuda: more than %d streams\n", STREAMS_MAX);
        abort();
    }
    known[known_count++] = stream;
}

static void release_stream(CUstream stream)
{
    if (stream->released != UINT64_MAX && stream->released < stream->enqueued) {
        stream->released = stream->enqueued;
        pthread_cond_signal(&stream->work);
    }
}

void standin_release_all(void)
{
    for (int i = 0; i < known_count; i++) {
        release_stream(known[i]);
        release_stream(known[i]->context->legacy);
    }
}

CUresult standin_wait(CUstream stream, uint64_t position, const struct standin_clock *clock)
{
    standin_release_all();
    release_stream(stream);
    while (stream->completed < position && stream->context->error == CUDA_SUCCESS)
        pthread_cond_wait(&standin_progress, &standin_lock);
    if (stream->completed >= position)
        standin_order_host(clock);
    return stream->context->error;
}

CUresult standin_context_wait(CUcontext context)
{
    CUresult status =
        standin_wait(context->legacy, context->legacy->enqueued, &context->legacy->clock);
    for (CUstream stream = context->streams; stream != NULL && status == CUDA_SUCCESS;
         stream = stream->next)
        status = standin_wait(stream, stream->enqueued, &stream->clock);
    return status;
}

/* Handles -------------------------------------------------------------------------------------- */
CUresult standin_stream_in(CUstream handle, CUcontext context, CUstream *stream)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (context == NULL || context->magic != STANDIN_CONTEXT)
            return context == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
        *stream = context->legacy;
        return __atomic_load_n(&context->error, __ATOMIC_ACQUIRE);
    }
    if (handle->magic != STANDIN_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    *stream = handle;
    return handle->context->magic == STANDIN_CONTEXT
               ? __atomic_load_n(&handle->context->error, __ATOMIC_ACQUIRE)
               : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult standin_stream_of(CUstream handle, CUstream *stream)
{
    return standin_stream_in(handle, standin_current(), stream);
}

/* Makes a stream. Priorities are 0 to -5, as on current GPUs; others are clamped, as by the real
 * driver. */
static CUresult create(CUstream *stream, unsigned int flags, int priority)
{
    CUcontext context;
    STANDIN_CHECK(standin_current_state(&context));
    if (stream == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *stream = standin_stream_new(context, flags);
    (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    pthread_mutex_lock(&standin_lock);
    (*stream)->next = context->streams;
    context->streams = *stream;
    remember_stream(*stream);
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    STANDIN_ENTER();
    return create(stream, flags, 0);
}

STANDIN_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags,
                                                   int priority)
{
    STANDIN_ENTER();
    return create(stream, flags, priority);
}

STANDIN_EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

/* Enqueued operations still run, as with the real driver. */
STANDIN_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    STANDIN_ENTER();
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream->magic != STANDIN_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&standin_lock);
    if (stream->capture != NULL)
        standin_capture_invalidate(stream->capture);
    CUstream *link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    stream->magic = STANDIN_DEAD;
    stream->released = UINT64_MAX;
    stream->closing = true;
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

/* Synchronisation and queries ------------------------------------------------------------------ */
CUresult standin_stream_synchronize(CUstream stream)
{
    CUresult status = CUDA_SUCCESS;
    if (stream->capture != NULL) {
        standin_capture_invalidate(stream->capture);
        status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (stream == stream->context->legacy) {
        status = standin_capture_implicit(stream->context);
        follow_legacy_order(stream);
    }
    if (status == CUDA_SUCCESS)
        status = standin_wait(stream, stream->enqueued, &stream->clock);
    return status;
}

STANDIN_EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    pthread_mutex_lock(&standin_lock);
    const CUresult status = standin_stream_synchronize(stream);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

STANDIN_EXPORT CUresult cuStreamQuery(CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&standin_lock);
    if (stream->capture != NULL) {
        standin_capture_invalidate(stream->capture);
        status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (stream->completed < stream->enqueued) {
        standin_release_all();
        status = CUDA_ERROR_NOT_READY;
    } else {
        standin_order_host(&stream->clock);
    }
    pthread_mutex_unlock(&standin_lock);
    return status;
}
