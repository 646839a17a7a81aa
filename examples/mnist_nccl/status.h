/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA(call), CUBLAS(call), NCCL(call): a call that fails aborts the job, after a line that says
 * which one, on which rank, and why. */
#ifndef MNIST_NCCL_STATUS_H
#define MNIST_NCCL_STATUS_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#define CUDA(call) status_cuda((call), #call)
#define CUBLAS(call) status_cublas((call), #call)
#define NCCL(call) status_nccl((call), #call)

void status_cuda(cudaError_t status, const char *call);
void status_cublas(cublasStatus_t status, const char *call);
void status_nccl(ncclResult_t status, const char *call);

#endif
