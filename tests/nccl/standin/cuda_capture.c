/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: stream capture, and the calls it forbids. */
#include <stdlib.h>

#include "tests/nccl/standin/cuda_capture.h"

static struct standin_capture *active;
static uint64_t captures;
static _Thread_local CUstreamCaptureMode interaction = CU_STREAM_CAPTURE_MODE_GLOBAL;

void standin_capture_invalidate(struct standin_capture *capture)
{
    if (capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

uint64_t standin_capture_id(CUstream stream)
{
    return stream->capture != NULL ? stream->capture->id : 0;
}

/* Returns true if an unsafe call of this thread invalidates the capture. */
static bool forbids_unsafe(const struct standin_capture *capture)
{
    const bool mine = pthread_equal(capture->thread, pthread_self()) != 0;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return interaction == CU_STREAM_CAPTURE_MODE_GLOBAL
               ? mine || capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL
               : interaction == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine;
}

CUresult standin_unsafe(void)
{
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&standin_lock);
    for (struct standin_capture *capture = active; capture != NULL; capture = capture->next)
        if (forbids_unsafe(capture)) {
            standin_capture_invalidate(capture);
            status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&standin_lock);
    return status;
}

static bool is_blocking_capture(CUstream stream)
{
    return stream->capture != NULL && (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

CUresult standin_capture_implicit(CUcontext context)
{
    CUresult status = CUDA_SUCCESS;
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next)
        if (is_blocking_capture(stream)) {
            standin_capture_invalidate(stream->capture);
            status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return status;
}

CUresult standin_capture_push(CUstream stream, struct standin_op *op)
{
    struct standin_capture *capture = stream->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        standin_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    capture->last[stream->branch] = standin_graph_add(capture->graph, op, stream->branch, -1);
    capture->joined[stream->branch] = false;
    return CUDA_SUCCESS;
}

CUresult standin_capture_record(CUstream stream, CUevent event)
{
    struct standin_capture *capture = stream->capture;
    if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = capture;
    event->capture_id = capture->id;
    event->branch = stream->branch;
    event->node = capture->last[stream->branch];
    return CUDA_SUCCESS;
}

/* Adds a stream to a capture: its origin, or a stream that waits for a captured event. */
static CUresult join(CUstream stream, struct standin_capture *capture)
{
    CUgraph graph = capture->graph;
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (graph->branches == STANDIN_BRANCHES_MAX)
        return CUDA_ERROR_NOT_SUPPORTED;
    stream->capture = capture;
    stream->branch = graph->branches++;
    capture->streams[stream->branch] = stream;
    capture->last[stream->branch] = -1;
    return CUDA_SUCCESS;
}

bool standin_capture_wait(CUstream stream, CUevent event, CUresult *status)
{
    struct standin_capture *capture = event->capture;
    *status = CUDA_SUCCESS;
    if (stream->capture == NULL && capture == NULL)
        return false;
    if (capture == NULL) { /* an event recorded outside cannot be waited for in a capture */
        standin_capture_invalidate(stream->capture);
        *status = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    } else if (capture->status == CU_STREAM_CAPTURE_STATUS_NONE) {
        *status = CUDA_ERROR_CAPTURED_EVENT;
    } else if (stream->capture != NULL && stream->capture != capture) {
        standin_capture_invalidate(stream->capture);
        standin_capture_invalidate(capture);
        *status = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        *status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        *status = stream->capture == NULL ? join(stream, capture) : CUDA_SUCCESS;
        if (*status == CUDA_SUCCESS && event->branch != stream->branch) {
            capture->last[stream->branch] =
                standin_graph_add(capture->graph, NULL, stream->branch, event->node);
            capture->joined[event->branch] = event->node == capture->last[event->branch];
            capture->joined[stream->branch] = false;
        }
    }
    return true;
}

STANDIN_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    STANDIN_ENTER();
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    const CUstreamCaptureMode before = interaction;
    interaction = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct standin_capture *capture = standin_zeros(sizeof *capture);
    capture->id = ++captures;
    capture->mode = mode;
    capture->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capture->thread = pthread_self();
    capture->origin = stream;
    capture->graph = standin_graph_new();
    capture->next = active;
    active = capture;
    return join(stream, capture);
}

STANDIN_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    CUresult status = begin(stream, mode);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

/* Removes the capture from its streams and from the active captures. */
static void detach_capture(struct standin_capture *capture)
{
    struct standin_capture **link = &active;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (int branch = 0; branch < capture->graph->branches; branch++)
        capture->streams[branch]->capture = NULL;
}

static CUresult end(CUstream stream, CUgraph *graph)
{
    struct standin_capture *capture = stream->capture;
    CUresult status = CUDA_SUCCESS;
    *graph = NULL;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        pthread_equal(capture->thread, pthread_self()) == 0)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (int branch = 1; branch < capture->graph->branches && status == CUDA_SUCCESS; branch++)
        if (!capture->joined[branch])
            status = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    detach_capture(capture);
    capture->status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (status == CUDA_SUCCESS)
        *graph = capture->graph;
    return status;
}

STANDIN_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    pthread_mutex_lock(&standin_lock);
    struct standin_capture *capture = stream->capture;
    CUresult status = end(stream, graph);
    pthread_mutex_unlock(&standin_lock);
    if (capture != NULL && capture->status == CU_STREAM_CAPTURE_STATUS_NONE &&
        status != CUDA_SUCCESS)
        standin_graph_free(capture->graph);
    return status;
}

STANDIN_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *state,
                                                  cuuint64_t *id, CUgraph *graph,
                                                  const CUgraphNode **dependencies, size_t *count)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&standin_lock);
    const struct standin_capture *capture = stream->capture;
    /* Queries of the legacy stream are refused, too, but invalidate nothing. */
    for (CUstream other = stream->context->streams; other != NULL; other = other->next)
        if (stream == stream->context->legacy && is_blocking_capture(other))
            status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *state = capture != NULL ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    if (id != NULL)
        *id = capture != NULL ? capture->id : 0;
    if (graph != NULL)
        *graph = capture != NULL ? capture->graph : NULL;
    pthread_mutex_unlock(&standin_lock);
    if (dependencies != NULL)
        *dependencies = NULL;
    if (count != NULL)
        *count = 0;
    return status;
}

STANDIN_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *state,
                                                  cuuint64_t *id, CUgraph *graph,
                                                  const CUgraphNode **dependencies,
                                                  const CUgraphEdgeData **edges, size_t *count)
{
    if (edges != NULL)
        *edges = NULL;
    return cuStreamGetCaptureInfo_v2(stream, state, id, graph, dependencies, count);
}
