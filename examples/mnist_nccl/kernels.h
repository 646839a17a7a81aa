/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of device.cuh, for C: each function starts one on a stream and returns the launch's
 * error. All pointers are to device memory, counts are of elements; what the kernels do is said in
 * device.cuh. Thread-safe.
 */
#ifndef MNIST_NCCL_KERNELS_H
#define MNIST_NCCL_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t kernels_normalise(const uint8_t *pixels, float *images, size_t count,
                              cudaStream_t stream);
cudaError_t kernels_gather_patches(const float *maps, float *patches, int side, int channels,
                                   size_t count, cudaStream_t stream);
cudaError_t kernels_scatter_patches(const float *patches, const float *maps, float *gradients,
                                    size_t count, cudaStream_t stream);
cudaError_t kernels_add_bias(float *rows, const float *bias, int columns, size_t count,
                             cudaStream_t stream);
cudaError_t kernels_add_bias_relu(float *rows, const float *bias, int columns, size_t count,
                                  cudaStream_t stream);
cudaError_t kernels_pool(const float *maps, const float *bias, float *features, uint8_t *winner,
                         size_t count, cudaStream_t stream);
cudaError_t kernels_unpool(const float *gradients, const uint8_t *winner, float *map_gradients,
                           size_t count, cudaStream_t stream);
cudaError_t kernels_dropout(float *rows, int columns, unsigned drop_chance_256, uint64_t dropout,
                            int first_item, int offset, size_t count, cudaStream_t stream);
cudaError_t kernels_relu_dropout_backward(const float *values, float *gradients,
                                          unsigned drop_chance_256, size_t count,
                                          cudaStream_t stream);
cudaError_t kernels_judge(float *rows, const uint8_t *labels, float scale, double *losses,
                          uint8_t *correct, size_t count, cudaStream_t stream);
cudaError_t kernels_descend(float *weights, float *velocity, const float *gradients,
                            float learning_rate, float momentum, size_t count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
