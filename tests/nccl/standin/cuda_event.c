/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: events, and host functions. */
#include <stdlib.h>

#include "tests/nccl/standin/cuda_internal.h"

STANDIN_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(standin_current_state(&context));
    if (event == NULL || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    *event = standin_zeros(sizeof **event);
    (*event)->magic = STANDIN_EVENT;
    (*event)->context = context;
    (*event)->flags = flags;
    return CUDA_SUCCESS;
}

static bool is_event(CUevent event)
{
    return event != NULL && event->magic == STANDIN_EVENT;
}

STANDIN_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    STANDIN_ENTER();
    if (!is_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    event->magic = STANDIN_DEAD; /* waits already enqueued use its record */
    return CUDA_SUCCESS;
}

static CUresult run_record(void *payload, uint64_t ticket)
{
    struct standin_record *record = payload;
    (void)ticket;
    record->seconds = standin_stream_seconds();
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(is_event(event) ? standin_stream_in(handle, standin_current(), &stream)
                                  : CUDA_ERROR_INVALID_HANDLE);
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&standin_lock);
    if (stream->capture != NULL) {
        status = standin_capture_record(stream, event);
    } else {
        struct standin_record *record = calloc(1, sizeof *record); /* never freed */
        if (record == NULL)
            abort();
        status = standin_push(stream, standin_op_new("event", run_record, NULL, record));
        record->stream = stream;
        record->position = stream->enqueued;
        record->clock = stream->clock;
        event->capture = NULL;
        if (status == CUDA_SUCCESS)
            event->record = record;
    }
    pthread_mutex_unlock(&standin_lock);
    return status;
}

/* Checks an event, for query and synchronise; the lock is held. */
static CUresult event_state(CUevent event)
{
    if (!is_event(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL) {
        standin_capture_invalidate(event->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return event->context->magic == STANDIN_CONTEXT ? event->context->error
                                                    : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static bool is_done(const struct standin_record *record)
{
    return record == NULL || record->stream->completed >= record->position;
}

STANDIN_EXPORT CUresult cuEventQuery(CUevent event)
{
    STANDIN_ENTER();
    STANDIN_CHECK(standin_unsafe());
    pthread_mutex_lock(&standin_lock);
    CUresult status = event_state(event);
    if (status == CUDA_SUCCESS && !is_done(event->record)) {
        standin_release_all();
        status = CUDA_ERROR_NOT_READY;
    } else if (status == CUDA_SUCCESS && event->record != NULL) {
        standin_order_host(&event->record->clock);
    }
    pthread_mutex_unlock(&standin_lock);
    return status;
}

STANDIN_EXPORT CUresult cuEventSynchronize(CUevent event)
{
    STANDIN_ENTER();
    STANDIN_CHECK(standin_unsafe());
    pthread_mutex_lock(&standin_lock);
    CUresult status = event_state(event);
    if (status == CUDA_SUCCESS && event->record != NULL)
        status =
            standin_wait(event->record->stream, event->record->position, &event->record->clock);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    if (!is_event(start) || !is_event(end) || start->context != end->context ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || start->record == NULL ||
        end->record == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_done(start->record) || !is_done(end->record))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(1e3 * (end->record->seconds - start->record->seconds));
    return start->context->error;
}

STANDIN_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    STANDIN_ENTER();
    pthread_mutex_lock(&standin_lock);
    const CUresult status = elapsed(milliseconds, start, end);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

STANDIN_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    STANDIN_ENTER();
    CUstream stream;
    CUresult status =
        is_event(event) ? standin_stream_of(handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (status != CUDA_SUCCESS)
        return status;
    if (flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&standin_lock);
    if (!standin_capture_wait(stream, event, &status) && event->record != NULL)
        standin_append_wait(stream, event->record->stream, event->record->position,
                            &event->record->clock, event->record);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

/* Host functions ------------------------------------------------------------------------------- */
struct host_call {
    CUhostFn function;
    void *argument;
};

static CUresult run_host(void *payload, uint64_t ticket)
{
    const struct host_call *call = payload;
    (void)ticket;
    pthread_mutex_lock(&standin_lock);
    standin_order_host(&standin_running->clock); /* before the function, which may wake the host */
    pthread_mutex_unlock(&standin_lock);
    standin_in_callback = true;
    call->function(call->argument);
    standin_in_callback = false;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    struct host_call *call = standin_zeros(sizeof *call);
    *call = (struct host_call){function, argument};
    return standin_enqueue(stream, standin_op_new("host function", run_host, free, call));
}
