/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/capture.h"

#include <stdlib.h>

struct capture {
    const struct cshim_nccl_comm *comm;
    cuuint64_t id;
    struct cshim_workspace *workspace;
    struct capture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards captures */
static struct capture *captures;

/* The graph and everything made of it are gone. CUDA calls this on a thread of its own, where no
 * function of CUDA may be called. */
static void end_capture(void *data)
{
    struct capture *capture = data;
    pthread_mutex_lock(&lock);
    struct capture **place = &captures;
    while (*place != NULL && *place != capture)
        place = &(*place)->next;
    if (*place != NULL)
        *place = capture->next;
    pthread_mutex_unlock(&lock);
    capture->workspace->used = false;
    cshim_workspace_give(capture->workspace);
    free(capture);
}

static struct cshim_workspace *find(const struct cshim_nccl_call *call)
{
    pthread_mutex_lock(&lock);
    const struct capture *capture = captures;
    while (capture != NULL && (capture->comm != call->comm || capture->id != call->capture_id))
        capture = capture->next;
    struct cshim_workspace *workspace = capture != NULL ? capture->workspace : NULL;
    pthread_mutex_unlock(&lock);
    return workspace;
}

/* Has the capture end with the graph. It ends here if the graph cannot hold it. */
static CUresult tie(const struct cshim_nccl_call *call, struct capture *capture)
{
    const struct cshim_cuda *cuda = &call->comm->cuda;
    CUuserObject object;
    CUresult result =
        cuda->UserObjectCreate(&object, capture, end_capture, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (result != CUDA_SUCCESS) {
        end_capture(capture);
        return result;
    }
    result = cuda->GraphRetainUserObject(call->graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS)
        cuda->UserObjectRelease(object, 1); /* which ends the capture */
    return result;
}

/* A graph cannot wait for an event from outside, so the host waits. The workspace comes from a
 * communicator that is gone: its last batch is done, or soon will be. */
static void wait_until_idle(const struct cshim_nccl_comm *comm, struct cshim_workspace *workspace)
{
    if (workspace->used)
        comm->cuda.EventSynchronize(workspace->idle);
    workspace->used = false;
}

static struct capture *make(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    char why[CSHIM_CUDA_WHY_MAX] = "no memory";
    struct capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return NULL;
    capture->comm = comm;
    capture->id = call->capture_id;
    struct cshim_scope scope = cshim_device_enter(comm); /* allocations are not captured */
    if (scope.result == CUDA_SUCCESS)
        capture->workspace = cshim_workspace_take(comm, why, sizeof why);
    if (capture->workspace != NULL)
        wait_until_idle(comm, capture->workspace);
    cshim_device_leave(comm, &scope);
    if (capture->workspace != NULL)
        return capture;
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    free(capture);
    return NULL;
}

enum cshim_reason cshim_capture_look(struct cshim_nccl_call *call)
{
    char why[CSHIM_CUDA_WHY_MAX];
    CUstreamCaptureStatus status;
    struct cshim_cuda opened;
    const struct cshim_cuda *cuda = &call->comm->cuda;
    if (!call->comm->prepared) {
        if (!cshim_cuda_open(&opened, why, sizeof why))
            return CSHIM_REASON_NOT_AGREED;
        cuda = &opened;
    }
    if (cuda->StreamGetCaptureInfo(call->stream, &status, &call->capture_id, &call->graph, NULL,
                                   NULL) != CUDA_SUCCESS)
        return CSHIM_REASON_CAPTURED;
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) {
        call->capture_id = 0;
        return CSHIM_REASON_COMPRESS;
    }
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !call->comm->prepared ||
        cuda->UserObjectCreate == NULL || cuda->GraphRetainUserObject == NULL)
        return CSHIM_REASON_CAPTURED;
    return CSHIM_REASON_COMPRESS;
}

struct cshim_workspace *cshim_capture_workspace(const struct cshim_nccl_call *call)
{
    struct cshim_workspace *workspace = find(call);
    struct capture *capture = workspace == NULL ? make(call) : NULL;
    if (capture == NULL)
        return workspace;
    pthread_mutex_lock(&lock);
    capture->next = captures;
    captures = capture;
    pthread_mutex_unlock(&lock);
    workspace = capture->workspace;
    const CUresult result = tie(call, capture);
    const char *what = "keeping memory for a graph";
    return cshim_device_check(call->comm, result, what) == ncclSuccess ? workspace : NULL;
}

void cshim_capture_forget(const struct cshim_nccl_comm *comm)
{
    pthread_mutex_lock(&lock);
    for (struct capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->comm == comm)
            capture->comm = NULL;
    }
    pthread_mutex_unlock(&lock);
}
