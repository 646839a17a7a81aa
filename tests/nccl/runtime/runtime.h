/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for the functions of the CUDA runtime (libcudart.so.13) and cuBLAS (libcublas.so.13)
 * that mnist_train_nccl calls, on top of the stand-in for the driver (tests/nccl/standin). With
 * them the shipped program runs on machines without a GPU. The kernels of examples/mnist_nccl are
 * compiled for the host; OpenBLAS computes the matrix products. The stand-ins prove nothing about
 * speed or the real libraries. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "tests/nccl/standin/standin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exported by the stand-in for libcuda.so.1. */
extern const struct standin_driver standin_driver;

struct runtime_grid {
    unsigned blocks, threads;
};

/* launch.cc: enqueues a kernel of examples/mnist_nccl. Copies its arguments, to which `arguments`
 * point. Returns CUDA_ERROR_NOT_FOUND if there is no kernel of that name. */
CUresult runtime_launch(const char *kernel, struct runtime_grid grid, void **arguments,
                        CUstream stream);

#ifdef __cplusplus
}
#endif

#endif
