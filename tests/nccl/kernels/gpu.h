/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for programs that run on the GPU, besides machine.h. */
#ifndef TESTS_NCCL_KERNELS_GPU_H
#define TESTS_NCCL_KERNELS_GPU_H

#include "kernels/driver.h"

/* Ends the program with a message about `what` unless `error` is CUDA_SUCCESS. */
void gpu_check(CUresult error, const char *what);

/* Returns the driver's functions. Call machine_open() first. */
const struct cshim_cuda *gpu_cuda(void);

#endif
