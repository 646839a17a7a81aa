/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels between the matrix products. Each is a loop over elements (or rows) that any number of
 * threads share, without shared memory or barriers, so each element's sum has one order. Maps and
 * rows have the layout of examples/mnist/model.h and device.h. */
#ifndef MNIST_NCCL_DEVICE_CUH
#define MNIST_NCCL_DEVICE_CUH

#include "examples/mnist/model.h"

#define FOR_EACH(i, count)                                                                         \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                    \
         i += (size_t)gridDim.x * blockDim.x)

extern "C" {

__global__ void mnist_normalise(const uint8_t *pixels, float *images, size_t count)
{
    FOR_EACH(i, count)
    images[i] = model_input(pixels[i]);
}

/* Copies the inputs of each output of a 3x3 convolution into a row:
 * [image][y][x][row][column][channel], from maps of side * side * channels. */
__global__ void mnist_gather_patches(const float *maps, float *patches, int side, int channels,
                                     size_t count)
{
    const size_t patch = (size_t)CONV_TAPS * channels;
    FOR_EACH(i, count)
    {
        const size_t output = i / patch, outputs = side - 2;
        const size_t tap = i % patch / channels, channel = i % channels;
        const size_t x = output % outputs + tap % CONV_KERNEL;
        const size_t y = output / outputs % outputs + tap / CONV_KERNEL;
        const size_t image = output / (outputs * outputs);
        patches[i] = maps[((image * side + y) * side + x) * channels + channel];
    }
}

/* Computes the gradients of the first convolution's maps: each element gets the sum of the
 * gradients of the patches' elements that it was copied to, in the order of the taps; or zero if
 * its ReLU was inactive. */
__global__ void mnist_scatter_patches(const float *patches, const float *maps, float *gradients,
                                      size_t count)
{
    FOR_EACH(i, count)
    {
        const int channel = (int)(i % CONV1_CHANNELS);
        const int x = (int)(i / CONV1_CHANNELS % CONV1_SIDE);
        const int y = (int)(i / (CONV1_CHANNELS * CONV1_SIDE) % CONV1_SIDE);
        const size_t image = i / CONV1_SIZE;
        float sum = 0;
        for (int tap = 0; tap < CONV_TAPS; tap++) {
            const int left = x - tap % CONV_KERNEL, top = y - tap / CONV_KERNEL;
            if (left < 0 || top < 0 || left >= CONV2_SIDE || top >= CONV2_SIDE)
                continue;
            const size_t output = (image * CONV2_SIDE + top) * CONV2_SIDE + left;
            sum += patches[output * CONV2_PATCH + tap * CONV1_CHANNELS + channel];
        }
        gradients[i] = maps[i] > 0 ? sum : 0;
    }
}

__global__ void mnist_add_bias(float *rows, const float *bias, int columns, bool relu, size_t count)
{
    FOR_EACH(i, count)
    {
        const float value = rows[i] + bias[i % columns];
        rows[i] = relu && !(value > 0) ? 0 : value;
    }
}

/* Returns the index of the first input of a maximum in the second convolution's maps; `feature`
 * counts over all images. */
__device__ static inline size_t first_of_four(size_t feature)
{
    const size_t channel = feature % CONV2_CHANNELS, position = feature / CONV2_CHANNELS;
    const size_t x = position % POOL_SIDE, line = position / POOL_SIDE; /* over all images */
    return (2 * line * CONV2_SIDE + 2 * x) * CONV2_CHANNELS + channel;
}

/* Computes features by max pooling. Applies bias and ReLU after the maximum: the result is the
 * same. `winner` is the index of the maximum, 2 * row + column, the first of equal ones. */
__global__ void mnist_pool(const float *maps, const float *bias, float *features, uint8_t *winner,
                           size_t count)
{
    FOR_EACH(i, count)
    {
        const size_t corner = first_of_four(i);
        float best = maps[corner];
        int from = 0;
        for (int other = 1; other < 4; other++) {
            const float value =
                maps[corner + ((other >> 1) * CONV2_SIDE + (other & 1)) * CONV2_CHANNELS];
            from = value > best ? other : from;
            best = value > best ? value : best;
        }
        best += bias[i % CONV2_CHANNELS];
        features[i] = best > 0 ? best : 0;
        winner[i] = (uint8_t)from;
    }
}

/* Copies each feature's gradient to the winner, and sets the other three to zero. */
__global__ void mnist_unpool(const float *gradients, const uint8_t *winner, float *map_gradients,
                             size_t count)
{
    FOR_EACH(i, count)
    {
        const size_t corner = first_of_four(i);
        for (int other = 0; other < 4; other++)
            map_gradients[corner + ((other >> 1) * CONV2_SIDE + (other & 1)) * CONV2_CHANNELS] =
                other == winner[i] ? gradients[i] : 0;
    }
}

/* Applies dropout. Row r is image first_item + r of the step; `offset` separates the random
 * counters of the layers. */
__global__ void mnist_dropout(float *rows, int columns, unsigned drop_chance_256, uint64_t stream,
                              int first_item, int offset, size_t count)
{
    const float scale = model_dropout_scale(drop_chance_256);
    FOR_EACH(i, count)
    {
        const size_t row = i / columns, column = i % columns;
        const uint64_t counter = (uint64_t)(first_item + row) * DROPOUT_COUNTERS_PER_IMAGE +
                                 offset + column / DROPOUT_UNITS_PER_DRAW;
        const unsigned shift = 8 * (unsigned)(column % DROPOUT_UNITS_PER_DRAW);
        rows[i] *= (rng_bits(stream, counter) >> shift & 255) < drop_chance_256 ? 0 : scale;
    }
}

/* Multiplies gradients by the derivative of a ReLU followed by a dropout; `values` is their result.
 */
__global__ void mnist_relu_dropout_backward(const float *values, float *gradients,
                                            unsigned drop_chance_256, size_t count)
{
    const float scale = model_dropout_scale(drop_chance_256);
    FOR_EACH(i, count)
    gradients[i] = values[i] > 0 ? gradients[i] * scale : 0;
}

/* Replaces each row of outputs by its gradient, and stores its score. */
__global__ void mnist_judge(float *rows, const uint8_t *labels, float scale, struct score *scores,
                            size_t count)
{
    FOR_EACH(i, count)
    scores[i] = model_judge(rows + i * IMAGE_CLASSES, labels[i], scale);
}

/* Makes a step of gradient descent with momentum. */
__global__ void mnist_descend(float *weights, float *velocity, const float *gradients,
                              float learning_rate, float momentum, size_t count)
{
    FOR_EACH(i, count)
    {
        velocity[i] = momentum * velocity[i] + gradients[i];
        weights[i] -= learning_rate * velocity[i];
    }
}
}

#endif
