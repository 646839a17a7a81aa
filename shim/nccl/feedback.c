/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/describe.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t bytes_in_use; /* of all residuals of this process */

/* Returns the bytes of a residual: a float for each element of the call, then a float for each sum
 * that this rank encodes (one chunk of each segment), then a margin of CSHIM_GRAIN floats. */
static uint64_t residual_bytes(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / (plan->peers * plan->shares);
    return (plan->count + plan->segments * chunk + CSHIM_GRAIN) * sizeof(float);
}

/* Frees a residual; its device memory is freed in stream order, on the communicator's stream. */
static void free_residual(struct cshim_nccl_comm *comm, struct cshim_nccl_residual *residual)
{
    if (residual->memory != 0)
        cshim_cuda.MemFreeAsync(residual->memory, comm->stream);
    bytes_in_use -= residual->bytes;
    free(residual);
}

void cshim_feedback_free(struct cshim_nccl_comm *comm)
{
    if (comm->residuals != NULL) /* the last batch may still use them */
        cshim_workspace_await(comm->workspace, comm->stream);
    for (struct cshim_nccl_residual *residual = comm->residuals, *next; residual != NULL;
         residual = next) {
        next = residual->next;
        free_residual(comm, residual);
    }
    comm->residuals = NULL;
    if (comm->residual_pool != NULL)
        cshim_cuda.MemPoolDestroy(comm->residual_pool); /* when all its memory is free */
    comm->residual_pool = NULL;
}

/* Allocates the residual's device memory and sets it to zero, in stream order on the call's stream.
 * Frees the residual on an error. */
static CUresult allocate_elements(const struct cshim_nccl_call *call,
                                  struct cshim_nccl_residual *residual)
{
    struct cshim_nccl_comm *comm = call->comm;
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = comm->device},
    };
    CSHIM_SCOPE scope = cshim_device_enter(comm);
    CUresult result = scope.result;
    if (result == CUDA_SUCCESS && comm->residual_pool == NULL)
        result = cshim_cuda.MemPoolCreate(&comm->residual_pool, &properties);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemAllocFromPoolAsync(&residual->memory, residual->bytes,
                                                  comm->residual_pool, call->stream);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.MemsetD32Async(residual->memory, 0, residual->bytes / sizeof(float),
                                           call->stream);
    if (result != CUDA_SUCCESS)
        free_residual(comm, residual);
    return result;
}

static struct cshim_nccl_residual *make_residual(const struct cshim_nccl_call *call)
{
    const uint64_t bytes = residual_bytes(&call->plan);
    struct cshim_nccl_residual *residual = NULL;
    if (atomic_fetch_add(&bytes_in_use, bytes) + bytes <= call->comm->job->policy->feedback_memory)
        residual = calloc(1, sizeof *residual);
    if (residual == NULL) {
        bytes_in_use -= bytes;
        return NULL;
    }
    *residual = (struct cshim_nccl_residual){.buffer = call->send,
                                             .count = call->plan.count,
                                             .dtype = call->plan.dtype,
                                             .algorithm = call->plan.algorithm,
                                             .bytes = bytes};
    return allocate_elements(call, residual) == CUDA_SUCCESS ? residual : NULL;
}

/* Clears a residual whose previous call, which may still run, took another algorithm. Returns false
 * if it is too small for this one: graphs may still use it, but it is not found any more. */
static bool change_algorithm(const struct cshim_nccl_call *call,
                             struct cshim_nccl_residual *residual)
{
    CSHIM_SCOPE scope = cshim_device_enter(call->comm);
    residual->algorithm = call->plan.algorithm;
    if (scope.result == CUDA_SUCCESS && residual_bytes(&call->plan) <= residual->bytes &&
        cshim_workspace_await(call->comm->workspace, call->stream) == CUDA_SUCCESS &&
        cshim_cuda.MemsetD32Async(residual->memory, 0, residual->bytes / sizeof(float),
                                  call->stream) == CUDA_SUCCESS)
        return true;
    residual->buffer = NULL;
    return false;
}

struct cshim_nccl_residual *cshim_feedback_find(const struct cshim_nccl_call *call)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT; /* once in a process */
    struct cshim_nccl_comm *comm = call->comm;
    struct cshim_nccl_residual **link = &comm->residuals;
    while (*link != NULL && ((*link)->buffer != call->send || (*link)->count != call->plan.count ||
                             (*link)->dtype != call->plan.dtype))
        link = &(*link)->next;
    if (*link != NULL && (*link)->algorithm == call->plan.algorithm)
        return *link;
    if (call->capture_id != 0) /* a graph would allocate, or clear, at each launch */
        return NULL;
    if (*link != NULL && change_algorithm(call, *link))
        return *link;
    struct cshim_nccl_residual *residual = make_residual(call);
    if (residual != NULL) {
        residual->next = comm->residuals;
        comm->residuals = residual;
    } else if (!atomic_flag_test_and_set(&warned)) {
        cshim_log(CSHIM_LOG_WARN,
                  "rule '%s': no memory for another residual of %llu bytes on rank %d "
                  "(feedback_memory = %llu): such buffers go on without error feedback",
                  call->plan.rule->name, (unsigned long long)residual_bytes(&call->plan),
                  comm->rank, (unsigned long long)comm->job->policy->feedback_memory);
    }
    return residual;
}
