/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/workspace.h"

#include <stdlib.h>
#include <string.h>

#define FAULT_BYTES (CSHIM_KERNEL_FAULT_WORDS * sizeof(uint32_t))

static struct cshim_pool_item *unused_workspaces;

static struct cshim_workspace *make_workspace(const struct cshim_nccl_comm *comm, uint64_t bytes,
                                              char why[CSHIM_CUDA_WHY_MAX])
{
    struct cshim_workspace *workspace = calloc(1, sizeof *workspace);
    if (workspace == NULL) {
        snprintf(why, CSHIM_CUDA_WHY_MAX, "no memory");
        return NULL;
    }
    workspace->item = (struct cshim_pool_item){.device = comm->device, .size = bytes};
    CUdeviceptr fault = 0;
    CUresult result = cshim_cuda.EventCreate(&workspace->idle, CU_EVENT_DISABLE_TIMING);
    for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT && result == CUDA_SUCCESS; i++)
        result = cshim_cuda.EventCreate(&workspace->steps[i], CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemHostAlloc((void **)&workspace->fault, FAULT_BYTES,
                                         CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemHostGetDevicePointer(&fault, workspace->fault, 0);
    workspace->fault_device = (uint32_t *)(uintptr_t)fault;
    if (result == CUDA_SUCCESS &&
        (result = cshim_cuda.MemAlloc(&workspace->memory, bytes)) == CUDA_SUCCESS)
        return workspace;
    cshim_cuda_explain("memory for compressed messages", result, why);
    if (workspace->fault != NULL)
        cshim_cuda.MemFreeHost(workspace->fault);
    if (workspace->idle != NULL)
        cshim_cuda.EventDestroy(workspace->idle);
    for (size_t i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT; i++)
        if (workspace->steps[i] != NULL)
            cshim_cuda.EventDestroy(workspace->steps[i]);
    free(workspace);
    return NULL;
}

struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm, uint64_t bytes,
                                             char why[CSHIM_CUDA_WHY_MAX])
{
    struct cshim_workspace *workspace = cshim_pool_take(&unused_workspaces, comm->device, bytes);
    if (workspace == NULL)
        workspace = make_workspace(comm, bytes, why);
    if (workspace != NULL)
        memset(workspace->fault, 0, FAULT_BYTES);
    return workspace;
}

void cshim_workspace_give(struct cshim_workspace *workspace)
{
    cshim_pool_give(&unused_workspaces, &workspace->item);
}

CUresult cshim_workspace_await(const struct cshim_workspace *workspace, CUstream stream)
{
    if (!workspace->used)
        return CUDA_SUCCESS;
    return cshim_cuda.StreamWaitEvent(stream, workspace->idle, CU_EVENT_WAIT_DEFAULT);
}

/* CUDA calls this when the graph and all its executables are destroyed, on a thread of its own that
 * may not call CUDA. */
static void release_from_graph(void *data)
{
    struct cshim_workspace *workspace = data;
    workspace->used = false;
    cshim_workspace_give(workspace);
}

/* Acquires a workspace that no work on the GPU uses any more. A graph cannot wait for an event from
 * outside, so the host waits: the communicator that had the workspace is gone, and its last batch
 * is done or soon will be. The scope keeps these calls out of the capture. */
static struct cshim_workspace *acquire_idle(const struct cshim_nccl_comm *comm, uint64_t bytes)
{
    char why[CSHIM_CUDA_WHY_MAX] = "no context for a graph's memory";
    struct cshim_workspace *workspace = NULL;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    if (scope.result == CUDA_SUCCESS)
        workspace = cshim_workspace_take(comm, bytes, why);
    if (workspace == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "%s", why);
        return NULL;
    }
    if (workspace->used)
        cshim_cuda.EventSynchronize(workspace->idle);
    workspace->used = false;
    if (workspace->kernels != NULL) /* the capture of the previous graph has ended */
        cshim_cuda.StreamDestroy(workspace->kernels);
    workspace->kernels = NULL;
    return workspace;
}

/* Makes the graph own the workspace, and release it when the graph and its executables are
 * destroyed. On an error the workspace is released at once. */
static CUresult tie_to_graph(CUgraph graph, struct cshim_workspace *workspace)
{
    CUuserObject object;
    CUresult result = cshim_cuda.UserObjectCreate(&object, workspace, release_from_graph, 1,
                                                  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (result != CUDA_SUCCESS) {
        release_from_graph(workspace);
        return result;
    }
    result = cshim_cuda.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS)
        cshim_cuda.UserObjectRelease(object, 1); /* releases the workspace */
    return result;
}

/* CUDA never reuses the id of a capture, so an equal id means the same graph. A graph whose calls
 * grow gets a workspace for each size. If their total would exceed CSHIM_NCCL_SCRATCH_LIMIT, the
 * next one has that size, which is enough for any call. */
struct cshim_workspace *cshim_workspace_of_graph(struct cshim_nccl_comm *comm,
                                                 cuuint64_t capture_id, CUgraph graph,
                                                 uint64_t bytes)
{
    if (comm->capture_id != capture_id)
        comm->capture_bytes = 0;
    else if (comm->capture_workspace->item.size >= bytes)
        return comm->capture_workspace;
    if (comm->capture_bytes + bytes > CSHIM_NCCL_SCRATCH_LIMIT)
        bytes = CSHIM_NCCL_SCRATCH_LIMIT;
    struct cshim_workspace *workspace = acquire_idle(comm, bytes);
    if (workspace == NULL || cshim_device_check(tie_to_graph(graph, workspace),
                                                "keeping memory for a graph") != ncclSuccess)
        return NULL;
    comm->capture_id = capture_id;
    comm->capture_workspace = workspace;
    comm->capture_bytes += bytes;
    return workspace;
}

CUstream cshim_workspace_stream(const struct cshim_nccl_comm *comm,
                                struct cshim_workspace *workspace)
{
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS && workspace->kernels == NULL)
        result = cshim_cuda.StreamCreateWithPriority(&workspace->kernels, CU_STREAM_NON_BLOCKING,
                                                     comm->priority);
    cshim_device_check(result, "a graph's stream");
    return workspace->kernels;
}
