/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/nccl/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards spare */
static struct cshim_workspace *spare;

static struct cshim_workspace *take_spare(int device)
{
    pthread_mutex_lock(&lock);
    struct cshim_workspace **place = &spare;
    while (*place != NULL && (*place)->device != device)
        place = &(*place)->next;
    struct cshim_workspace *workspace = *place;
    if (workspace != NULL)
        *place = workspace->next;
    pthread_mutex_unlock(&lock);
    return workspace;
}

static CUresult make(const struct cshim_cuda *cuda, struct cshim_workspace *workspace)
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

struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *state, char *why,
                                             size_t size)
{
    struct cshim_workspace *workspace = take_spare(state->device);
    if (workspace == NULL) {
        workspace = calloc(1, sizeof *workspace);
        if (workspace == NULL) {
            snprintf(why, size, "no memory");
            return NULL;
        }
        workspace->device = state->device;
        const CUresult result = make(&state->cuda, workspace);
        if (result != CUDA_SUCCESS) {
            cshim_cuda_explain(&state->cuda, "memory for compressed messages", result, why, size);
            free(workspace);
            return NULL;
        }
    }
    memset(workspace->fault, 0, CSHIM_KERNEL_FAULT_WORDS * sizeof(uint32_t));
    return workspace;
}

CUresult cshim_workspace_await(const struct cshim_nccl_call *call)
{
    if (!call->workspace->used)
        return CUDA_SUCCESS;
    return call->comm->cuda.StreamWaitEvent(call->stream, call->workspace->idle,
                                            CU_EVENT_WAIT_DEFAULT);
}

void cshim_workspace_give(struct cshim_workspace *workspace)
{
    pthread_mutex_lock(&lock);
    workspace->next = spare;
    spare = workspace;
    pthread_mutex_unlock(&lock);
}
