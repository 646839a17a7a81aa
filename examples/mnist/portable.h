/* SPDX-License-Identifier: Apache-2.0 */
/* HOST_AND_DEVICE before a function of a header: nvcc compiles it for the GPU as well. */
#ifndef MNIST_PORTABLE_H
#define MNIST_PORTABLE_H

#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__
#else
#define HOST_AND_DEVICE
#endif

#endif
