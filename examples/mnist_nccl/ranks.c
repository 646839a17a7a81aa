/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of the job do together by MPI: a GPU for each, NCCL's communicator, and the end of
 * all where one cannot go on. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>

#include "examples/mnist/device.h"
#include "examples/mnist_nccl/gpu.h"

const char device_help[] = "Each rank computes on the GPU of its number on its host; without a "
                           "GPU the exit status is 3.\n";

static void stop(const char *call, const char *why)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s: rank %d: %s: %s\n", program_invocation_short_name, rank, call, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void check_cuda(cudaError_t status, const char *call)
{
    if (status == cudaErrorMemoryAllocation)
        stop(call, "no memory left on the GPU: try a smaller --batch");
    if (status != cudaSuccess)
        stop(call, cudaGetErrorString(status));
}

void check_cublas(cublasStatus_t status, const char *call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        stop(call, cublasGetStatusString(status));
}

void check_nccl(ncclResult_t status, const char *call)
{
    if (status != ncclSuccess)
        stop(call, ncclGetErrorString(status));
}

/* The rank's number among those of its host. */
static int local_rank(void)
{
    MPI_Comm host;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    return rank;
}

bool device_start(void)
{
    int rank = 0, ranks = 1, devices = 0, first = 0, local = local_rank();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess)
        status = devices > 0 ? cudaSetDevice(local % devices) : cudaErrorNoDevice;
    int without = status == cudaSuccess ? ranks : rank;
    MPI_Allreduce(&without, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == rank)
        fprintf(stderr, "%s: no GPU can be used by rank %d: %s\n", program_invocation_short_name,
                rank, cudaGetErrorString(status));
    return first == ranks;
}

ncclComm_t new_communicator(void)
{
    int rank = 0, ranks = 1;
    ncclUniqueId id;
    ncclComm_t comm;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    return comm;
}
