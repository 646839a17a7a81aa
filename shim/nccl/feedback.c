/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/feedback.h"

#include "shim/nccl/workspace.h"

/* Returns the bytes of a residual: a float for each element of the call, then a float for each sum
 * that this rank encodes (one chunk of each segment), then a margin of CSHIM_GRAIN floats. */
static uint64_t residual_bytes(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / (plan->peers * plan->shares);
    return (plan->count + plan->segments * chunk + CSHIM_GRAIN) * sizeof(float);
}

static CUresult clear_residual(const struct cshim_residual *residual, CUstream stream)
{
    return cshim_cuda.MemsetD32Async(residual->memory, 0, residual->bytes / sizeof(float), stream);
}

/* Allocates the residual's device memory and sets it to zero, in order on the call's stream. */
static bool allocate_residual(void *owner, struct cshim_residual *residual)
{
    struct cshim_nccl_comm *comm = owner;
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = comm->device},
    };
    CUdeviceptr memory = 0;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS && comm->residual_pool == NULL)
        result = cshim_cuda.MemPoolCreate(&comm->residual_pool, &properties);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemAllocFromPoolAsync(&memory, residual->bytes, comm->residual_pool,
                                                  comm->runs_on);
    residual->memory = memory;
    return result == CUDA_SUCCESS && clear_residual(residual, comm->runs_on) == CUDA_SUCCESS;
}

/* Frees the residual's device memory in stream order, after the last batch that may use it. */
static void free_residual(void *owner, struct cshim_residual *residual)
{
    struct cshim_nccl_comm *comm = owner;
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    if (residual->memory == 0 || scope.result != CUDA_SUCCESS)
        return;
    cshim_workspace_await(comm->workspace, comm->stream);
    cshim_cuda.MemFreeAsync(residual->memory, comm->stream);
}

void cshim_feedback_free(struct cshim_nccl_comm *comm)
{
    cshim_residuals_free(&comm->residuals);
    if (comm->residual_pool != NULL)
        cshim_cuda.MemPoolDestroy(comm->residual_pool); /* takes effect when its memory is free */
    comm->residual_pool = NULL;
}

/* Clears a residual for a call whose algorithm is not that of the residual's previous call. First
 * waits, on the call's stream, for the previous call. Returns false if the residual is too small,
 * or on an error; then no later call finds the residual, but graphs may still use it. */
static bool change_algorithm(const struct cshim_nccl_call *call, struct cshim_residual *residual)
{
    CSHIM_SCOPE scope = cshim_device_enter(call->comm);
    residual->algorithm = call->plan.algorithm;
    if (scope.result == CUDA_SUCCESS && residual_bytes(&call->plan) <= residual->bytes &&
        cshim_workspace_await(call->comm->workspace, call->stream) == CUDA_SUCCESS &&
        clear_residual(residual, call->stream) == CUDA_SUCCESS)
        return true;
    residual->buffer = NULL;
    return false;
}

/* Also sets comm->runs_on, the stream on which the residual's memory is allocated, as
 * assign_streams in batch.c sets it only later. */
struct cshim_residual *cshim_feedback_find(const struct cshim_nccl_call *call)
{
    struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_plan *plan = &call->plan;
    const struct cshim_policy *policy = comm->job->policy;
    /* In a graph, memory would be allocated or cleared at each launch, so neither is done there. */
    const bool captured = call->capture_id != 0;
    const struct cshim_residual wanted = {.buffer = call->send,
                                          .count = plan->count,
                                          .dtype = plan->dtype,
                                          .algorithm = plan->algorithm,
                                          .bytes = residual_bytes(plan)};
    comm->runs_on = call->stream;
    comm->residuals.allocate = allocate_residual;
    comm->residuals.release = free_residual;
    comm->residuals.owner = comm;
    struct cshim_residual *residual = cshim_residual_acquire(&comm->residuals, &wanted, !captured,
                                                             policy, plan->rule, comm->rank);
    if (residual == NULL)
        return NULL;
    residual->in_graph = residual->in_graph || captured;
    if (residual->algorithm == plan->algorithm || (!captured && change_algorithm(call, residual)))
        return residual;
    cshim_residual_release(residual);
    return captured ? NULL
                    : cshim_residual_acquire(&comm->residuals, &wanted, true, policy, plan->rule,
                                             comm->rank);
}
