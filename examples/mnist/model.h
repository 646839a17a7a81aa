/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the two networks, independent of the device: sizes, dropout, initial weights,
 * inputs and outputs. Both end with two dense layers with a ReLU between them, log-softmax and
 * negative log likelihood. Dropout is for training only. The functions have no state. */
#ifndef MNIST_MODEL_H
#define MNIST_MODEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/mnist/images.h"
#include "examples/mnist/rng.h"

#ifdef __cplusplus
extern "C" {
#endif

enum network_model {
    NETWORK_CONV, /* convolutions, dropout 1/4, 9216 -> 128, dropout 1/2, 128 -> 10 */
    NETWORK_MLP   /* 784 -> 512, 512 -> 10 */
};

/* Convolutions: 1 -> 32 (3x3), ReLU, 32 -> 64 (3x3), ReLU, max pooling 2x2. Maps are stored channel
 * last, so that the inputs in a row of the kernel, three pixels with all channels, are contiguous.
 */
enum {
    CONV_KERNEL = 3,
    CONV_TAPS = CONV_KERNEL * CONV_KERNEL,
    CONV1_SIDE = IMAGE_SIDE - 2,
    CONV1_CHANNELS = 32,
    CONV1_SIZE = CONV1_SIDE * CONV1_SIDE * CONV1_CHANNELS,
    CONV2_SIDE = CONV1_SIDE - 2,
    CONV2_CHANNELS = 64,
    CONV2_SIZE = CONV2_SIDE * CONV2_SIDE * CONV2_CHANNELS,
    CONV2_ROW = CONV_KERNEL * CONV1_CHANNELS, /* inputs in one row of the kernel */
    CONV2_PATCH = CONV_KERNEL * CONV2_ROW,    /* inputs of one output */
    POOL_SIDE = CONV2_SIDE / 2,
    POOL_SIZE = POOL_SIDE * POOL_SIDE * CONV2_CHANNELS
};

/* Counters of the random numbers for dropout: each image has its own, those of the hidden layer
 * from DROPOUT_HIDDEN_COUNTER on. One number serves 8 units. */
enum {
    DROPOUT_COUNTERS_PER_IMAGE = 4096,
    DROPOUT_HIDDEN_COUNTER = 2048,
    DROPOUT_UNITS_PER_DRAW = 8
};

enum { MODEL_LAYERS_MAX = 4 };

/* Number of inputs of each output of a layer, and number of outputs. The layer has inputs * outputs
 * weights and a bias per output; a convolution has one set of them for all positions. */
struct layer_shape {
    int inputs, outputs;
};

struct model {
    enum network_model which;
    unsigned drop_features, drop_hidden; /* dropout probabilities, in 256ths */
    int layer_count;
    struct layer_shape layers[MODEL_LAYERS_MAX]; /* convolutions, if any, then dense layers */
    size_t parameters;                           /* number of parameters in all tensors */
};

struct model model_of(enum network_model which);

/* Returns the number of elements of a tensor. Tensor 2 * l has the weights of layer l, tensor
 * 2 * l + 1 its biases; tensors follow each other without gaps. */
int model_tensor_size(const struct model *model, int tensor);

/* Draws the initial parameters. */
void model_draw(const struct model *model, uint64_t seed, float *parameters);

/* Returns `count` zeroed elements of `size` bytes, which the caller frees. If there is no memory,
 * prints a message, with `images`, the number of this rank's images in a batch, and aborts the job.
 */
void *host_memory(int images, size_t count, size_t size);

/* Returns a pixel as input of the network: normalised by mean and standard deviation of MNIST. */
HOST_AND_DEVICE static inline float model_input(uint8_t pixel)
{
    return ((float)pixel / 255.0F - 0.1307F) / 0.3081F;
}

/* Returns the factor of a unit that is not dropped: the inverse of its probability to stay. */
HOST_AND_DEVICE static inline float model_dropout_scale(unsigned drop_chance_256)
{
    return 256.0F / (float)(256 - drop_chance_256);
}

/* Sum of losses and number of right answers of some images. */
struct score {
    double loss;
    double correct;
};

/* Computes log-softmax and negative log likelihood of one image's outputs. Replaces the outputs by
 * their gradient times `scale`. Returns the image's score. */
HOST_AND_DEVICE static inline struct score model_judge(float *row, int label, float scale)
{
    int best = 0;
    for (int i = 1; i < IMAGE_CLASSES; i++)
        best = row[i] > row[best] ? i : best;
    float highest = row[best];
    double sum = exp((double)(row[0] - highest));
    for (int i = 1; i < IMAGE_CLASSES; i++)
        sum += exp((double)(row[i] - highest));
    double log_sum = log(sum) + (double)highest;
    struct score score = {log_sum - (double)row[label], best == label ? 1.0 : 0.0};
    for (int i = 0; i < IMAGE_CLASSES; i++)
        row[i] = scale * (float)(exp((double)row[i] - log_sum) - (i == label ? 1.0 : 0.0));
    return score;
}

#ifdef __cplusplus
}
#endif

#endif
