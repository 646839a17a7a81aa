/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist_nccl/kernels.h"

#include "examples/mnist_nccl/device.cuh"

enum { THREADS = 256, BLOCKS_MAX = 4096 };

/* Starts a kernel with a thread per element, or fewer that go round. */
#define LAUNCH(kernel, count, stream, ...)                                                         \
    do {                                                                                           \
        const size_t blocks = ((count) + THREADS - 1) / THREADS;                                   \
        const unsigned grid = blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX;                 \
        if (grid > 0)                                                                              \
            kernel<<<grid, THREADS, 0, stream>>>(__VA_ARGS__, count);                              \
        return cudaGetLastError();                                                                 \
    } while (0)

cudaError_t kernels_normalise(const uint8_t *pixels, float *images, size_t count,
                              cudaStream_t stream)
{
    LAUNCH(mnist_normalise, count, stream, pixels, images);
}

cudaError_t kernels_gather_patches(const float *maps, float *patches, int side, int channels,
                                   size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_gather_patches, count, stream, maps, patches, side, channels);
}

cudaError_t kernels_scatter_patches(const float *patches, const float *maps, float *gradients,
                                    size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_scatter_patches, count, stream, patches, maps, gradients);
}

cudaError_t kernels_add_bias(float *rows, const float *bias, int columns, size_t count,
                             cudaStream_t stream)
{
    LAUNCH(mnist_add_bias, count, stream, rows, bias, columns);
}

cudaError_t kernels_add_bias_relu(float *rows, const float *bias, int columns, size_t count,
                                  cudaStream_t stream)
{
    LAUNCH(mnist_add_bias_relu, count, stream, rows, bias, columns);
}

cudaError_t kernels_pool(const float *maps, const float *bias, float *features, uint8_t *winner,
                         size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_pool, count, stream, maps, bias, features, winner);
}

cudaError_t kernels_unpool(const float *gradients, const uint8_t *winner, float *map_gradients,
                           size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_unpool, count, stream, gradients, winner, map_gradients);
}

cudaError_t kernels_dropout(float *rows, int columns, unsigned drop_chance_256, uint64_t dropout,
                            int first_item, int offset, size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_dropout, count, stream, rows, columns, drop_chance_256, dropout, first_item,
           offset);
}

cudaError_t kernels_relu_dropout_backward(const float *values, float *gradients,
                                          unsigned drop_chance_256, size_t count,
                                          cudaStream_t stream)
{
    LAUNCH(mnist_relu_dropout_backward, count, stream, values, gradients, drop_chance_256);
}

cudaError_t kernels_judge(float *rows, const uint8_t *labels, float scale, double *losses,
                          uint8_t *correct, size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_judge, count, stream, rows, labels, scale, losses, correct);
}

cudaError_t kernels_descend(float *weights, float *velocity, const float *gradients,
                            float learning_rate, float momentum, size_t count, cudaStream_t stream)
{
    LAUNCH(mnist_descend, count, stream, weights, velocity, gradients, learning_rate, momentum);
}
