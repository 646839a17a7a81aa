/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for the CUDA runtime (libcudart.so.13) and cuBLAS (libcublas.so.13), as much of them as
 * mnist_train_nccl calls, on top of the stand-in for the driver (tests/nccl/standin): so that the
 * program as it is shipped runs on machines without a GPU. The kernels of examples/mnist_nccl are
 * compiled for the host, and the matrix products are those of OpenBLAS, which has cuBLAS's calling
 * convention. They prove nothing about speed, nor about the real libraries.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "tests/nccl/standin/standin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of libcuda.so.1. */
extern const struct standin_driver standin_driver;

struct runtime_grid {
    unsigned blocks, threads;
};

/* Puts a kernel of examples/mnist_nccl on a stream; `arguments` point at its arguments, which are
 * copied. CUDA_ERROR_NOT_FOUND if there is none of that name. (launch.cc) */
CUresult runtime_launch(const char *kernel, struct runtime_grid grid, void **arguments,
                        CUstream stream);

#ifdef __cplusplus
}
#endif

#endif
