/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are captured into a CUDA graph. Their kernels and messages become nodes of it; the
 * memory of their messages belongs to the graph, because it may be launched at any time beside
 * calls that are not captured. */
#include <stdlib.h>

#include "shim/nccl/internal.h"

struct capture {
    const struct cshim_nccl_comm *comm;
    cuuint64_t id;
    struct cshim_workspace *workspace;
    struct capture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards captures */
static struct capture *captures;

/* The graph and all that was made of it are gone. Called on a thread of CUDA's, which forbids calls
 * of CUDA. */
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

/* Gives the graph a share in the capture, which ends with it, or here if that cannot be. */
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

/* A graph cannot wait for an event from outside. The communicator that had the workspace is gone:
 * its last round is done, or soon. */
static void wait_for_idle(const struct cshim_nccl_comm *comm, struct cshim_workspace *workspace)
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
    struct cshim_scope scope = cshim_nccl_enter(comm); /* what is allocated is not captured */
    if (scope.result == CUDA_SUCCESS)
        capture->workspace = cshim_workspace_take(comm, why, sizeof why);
    if (capture->workspace != NULL)
        wait_for_idle(comm, capture->workspace);
    cshim_nccl_leave(comm, &scope);
    if (capture->workspace != NULL)
        return capture;
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    free(capture);
    return NULL;
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
    return cshim_nccl_check(call->comm, tie(call, capture), "keeping memory for a graph") ==
                   ncclSuccess
               ? workspace
               : NULL;
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
