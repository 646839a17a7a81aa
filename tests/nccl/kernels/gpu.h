/* SPDX-License-Identifier: Apache-2.0 */
/* What programs for the GPU need beside machine.h. */
#ifndef TESTS_NCCL_KERNELS_GPU_H
#define TESTS_NCCL_KERNELS_GPU_H

#include "kernels/driver.h"

/* Ends the program with a message unless error is CUDA_SUCCESS. */
void gpu_check(CUresult error, const char *what);

/* The driver; after machine_open. */
const struct cshim_cuda *gpu_cuda(void);

#endif
