/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/workspace.h"

#include <stdlib.h>
#include <string.h>

static struct cshim_pool spare;

static CUresult allocate(const struct cshim_cuda *cuda, struct cshim_workspace *workspace)
{
    const size_t samples = CSHIM_SAMPLES_OF_GROUP * CSHIM_SAMPLE_GATHERED_BYTES;
    const size_t fault_bytes = CSHIM_KERNEL_FAULT_WORDS * sizeof(uint32_t);
    CUresult result = cuda->EventCreate(&workspace->idle, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = cuda->MemHostAlloc((void **)&workspace->fault, fault_bytes,
                                    CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_SUCCESS)
        result = cuda->MemHostGetDevicePointer(&workspace->fault_device, workspace->fault, 0);
    if (result == CUDA_SUCCESS)
        result = cuda->MemAlloc(&workspace->memory, CSHIM_WORKSPACE_BYTES + samples);
    if (result == CUDA_SUCCESS)
        return result;
    if (workspace->fault != NULL)
        cuda->MemFreeHost(workspace->fault);
    if (workspace->idle != NULL)
        cuda->EventDestroy(workspace->idle);
    return result;
}

static struct cshim_workspace *make(const struct cshim_nccl_comm *comm, char *why, size_t size)
{
    struct cshim_workspace *workspace = calloc(1, sizeof *workspace);
    if (workspace == NULL) {
        snprintf(why, size, "no memory");
        return NULL;
    }
    workspace->item = (struct cshim_pool_item){.device = comm->device, .ranks = INT32_MAX};
    const CUresult result = allocate(&comm->cuda, workspace);
    if (result == CUDA_SUCCESS)
        return workspace;
    cshim_cuda_explain(&comm->cuda, "memory for compressed messages", result, why, size);
    free(workspace);
    return NULL;
}

struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm, char *why,
                                             size_t size)
{
    struct cshim_workspace *workspace = cshim_pool_take(&spare, comm);
    if (workspace == NULL)
        workspace = make(comm, why, size);
    if (workspace != NULL)
        memset(workspace->fault, 0, CSHIM_KERNEL_FAULT_WORDS * sizeof(uint32_t));
    return workspace;
}

void cshim_workspace_give(struct cshim_workspace *workspace)
{
    cshim_pool_give(&spare, &workspace->item);
}

CUresult cshim_workspace_await(const struct cshim_workspace *workspace,
                               const struct cshim_nccl_comm *comm, CUstream stream)
{
    if (!workspace->used)
        return CUDA_SUCCESS;
    return comm->cuda.StreamWaitEvent(stream, workspace->idle, CU_EVENT_WAIT_DEFAULT);
}
