/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist_nccl/status.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>

static void stop(const char *call, const char *why)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s: rank %d: %s: %s\n", program_invocation_short_name, rank, call, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void status_cuda(cudaError_t status, const char *call)
{
    if (status == cudaErrorMemoryAllocation)
        stop(call, "no memory left on the GPU: try a smaller --batch");
    if (status != cudaSuccess)
        stop(call, cudaGetErrorString(status));
}

void status_cublas(cublasStatus_t status, const char *call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        stop(call, cublasGetStatusString(status));
}

void status_nccl(ncclResult_t status, const char *call)
{
    if (status != ncclSuccess)
        stop(call, ncclGetErrorString(status));
}
