/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu.cu leaves to a compiler that knows MPI. CUDA(call), CUBLAS(call), NCCL(call): a call
 * that fails aborts the job, after a line that says which one, on which rank, and why. */
#ifndef MNIST_NCCL_GPU_H
#define MNIST_NCCL_GPU_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA(call) check_cuda((call), #call)
#define CUBLAS(call) check_cublas((call), #call)
#define NCCL(call) check_nccl((call), #call)

void check_cuda(cudaError_t status, const char *call);
void check_cublas(cublasStatus_t status, const char *call);
void check_nccl(ncclResult_t status, const char *call);

/* Returns a communicator of all ranks of MPI_COMM_WORLD (collective). */
ncclComm_t new_communicator(void);

#ifdef __cplusplus
}
#endif

#endif
