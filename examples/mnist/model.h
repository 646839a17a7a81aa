/* SPDX-License-Identifier: Apache-2.0 */
/* What the two networks are, whatever computes them: sizes, chances, initial weights, inputs and
 * outputs. Both end in two dense layers with a relu between them, log-softmax and negative log
 * likelihood; dropout only while training. Pure, but for host_memory.
 */
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

/* The convolutions: 1 -> 32 (3x3), relu, 32 -> 64 (3x3), relu, max pooling 2x2. Maps are stored
 * channel last, so that the three neighbours under a row of the kernel lie side by side. */
enum {
    CONV_KERNEL = 3,
    CONV_TAPS = CONV_KERNEL * CONV_KERNEL,
    CONV1_SIDE = IMAGE_SIDE - 2,
    CONV1_CHANNELS = 32,
    CONV1_SIZE = CONV1_SIDE * CONV1_SIDE * CONV1_CHANNELS,
    CONV2_SIDE = CONV1_SIDE - 2,
    CONV2_CHANNELS = 64,
    CONV2_SIZE = CONV2_SIDE * CONV2_SIDE * CONV2_CHANNELS,
    CONV2_ROW = CONV_KERNEL * CONV1_CHANNELS, /* inputs under one row of the kernel */
    CONV2_PATCH = CONV_KERNEL * CONV2_ROW,    /* inputs of one output */
    POOL_SIDE = CONV2_SIDE / 2,
    POOL_SIZE = POOL_SIDE * POOL_SIDE * CONV2_CHANNELS
};

/* Counters of one image's dropout, apart from those of its neighbours: one draw serves 8 units. */
enum {
    DROPOUT_COUNTERS_PER_IMAGE = 4096,
    DROPOUT_HIDDEN_COUNTER = 2048,
    DROPOUT_UNITS_PER_DRAW = 8
};

enum { MODEL_LAYERS_MAX = 4 };

/* How many values each output of a layer is summed from, and the outputs. It has inputs * outputs
 * weights and a bias for each output; a convolution has one set of them for all positions. */
struct layer_shape {
    int inputs, outputs;
};

struct model {
    enum network_model which;
    unsigned drop_features, drop_hidden; /* chances of a dropout, in 256ths */
    int layer_count;
    struct layer_shape layers[MODEL_LAYERS_MAX]; /* the convolutions, if any, then the dense ones */
    size_t parameters;                           /* of all tensors */
};

struct model model_of(enum network_model which);

/* The parameters are tensors, one after the other: of layer l, the weights are tensor 2 * l and the
 * biases 2 * l + 1. Returns the elements of a tensor. */
int model_tensor_size(const struct model *model, int tensor);

/* Draws the initial parameters. */
void model_draw(const struct model *model, uint64_t seed, float *parameters);

/* Returns zeroed memory for passes over batches of `images` images of this rank, which the caller
 * frees. Where there is none, the rank says so and aborts the job. */
void *host_memory(int images, size_t count, size_t size);

/* A pixel as the network takes it: normalised with the mean and the standard deviation of MNIST's.
 */
HOST_AND_DEVICE static inline float model_input(uint8_t pixel)
{
    return ((float)pixel / 255.0F - 0.1307F) / 0.3081F;
}

/* What is left of a unit is multiplied by the inverse of its chance to stay. */
HOST_AND_DEVICE static inline float model_dropout_scale(unsigned drop_chance_256)
{
    return 256.0F / (float)(256 - drop_chance_256);
}

/* The sum of losses and the number of right answers of some images. */
struct score {
    double loss;
    double correct;
};

/* Log-softmax and negative log likelihood of one image's outputs, in float64. Turns them into their
 * gradient times `scale`, and returns what they are worth. */
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
