/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/capture.h"

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

/* The graph and everything made of it are gone. CUDA calls this on a thread of its own, where no
 * function of CUDA may be called. */
static void give_back(void *data)
{
    struct cshim_workspace *workspace = data;
    workspace->used = false;
    cshim_workspace_give(workspace);
}

/* Takes a workspace that no work is using. A graph cannot wait for an event from outside, so the
 * host waits: the communicator that had the workspace is gone, and its last batch is done or soon
 * will be. What is allocated in the scope is not captured. */
static struct cshim_workspace *take_idle(const struct cshim_nccl_comm *comm)
{
    char why[CSHIM_CUDA_WHY_MAX] = "no context for a graph's memory";
    struct cshim_workspace *workspace = NULL;
    struct cshim_scope scope = cshim_device_enter(comm);
    if (scope.result == CUDA_SUCCESS)
        workspace = cshim_workspace_take(comm, why, sizeof why);
    if (workspace == NULL)
        cshim_log(CSHIM_LOG_ERROR, "%s", why);
    else if (workspace->used)
        comm->cuda.EventSynchronize(workspace->idle);
    cshim_device_leave(comm, &scope);
    if (workspace != NULL)
        workspace->used = false;
    return workspace;
}

/* Has the graph give the workspace back. Where the graph cannot hold it, it goes back at once. */
static CUresult tie(const struct cshim_nccl_call *call, struct cshim_workspace *workspace)
{
    const struct cshim_cuda *cuda = &call->comm->cuda;
    CUuserObject object;
    CUresult result =
        cuda->UserObjectCreate(&object, workspace, give_back, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (result != CUDA_SUCCESS) {
        give_back(workspace);
        return result;
    }
    result = cuda->GraphRetainUserObject(call->graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS)
        cuda->UserObjectRelease(object, 1); /* which gives the workspace back */
    return result;
}

/* CUDA never uses the id of a capture again. */
struct cshim_workspace *cshim_capture_workspace(const struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    if (comm->capture_id == call->capture_id)
        return comm->capture_workspace;
    struct cshim_workspace *workspace = take_idle(comm);
    if (workspace == NULL ||
        cshim_device_check(comm, tie(call, workspace), "keeping memory for a graph") != ncclSuccess)
        return NULL;
    comm->capture_id = call->capture_id;
    comm->capture_workspace = workspace;
    return workspace;
}
