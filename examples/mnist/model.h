/* SPDX-License-Identifier: Apache-2.0 */
/* What the two networks are, whatever computes them: sizes, chances, initial weights, inputs. Both
 * end in two dense layers with a relu between them, log-softmax and negative log likelihood;
 * dropout only while training. Pure.
 */
#ifndef MNIST_MODEL_H
#define MNIST_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "examples/mnist/portable.h"

enum network_model {
    NETWORK_CONV, /* convolutions of conv.h, dropout 1/4, 9216 -> 128, dropout 1/2, 128 -> 10 */
    NETWORK_MLP   /* 784 -> 512, 512 -> 10 */
};

enum { MODEL_TENSORS_MAX = 8 };

/* Counters of one image's dropout, apart from those of its neighbours: one draw serves 8 units. */
enum {
    DROPOUT_COUNTERS_PER_IMAGE = 4096,
    DROPOUT_HIDDEN_COUNTER = 2048,
    DROPOUT_UNITS_PER_DRAW = 8
};

/* A parameter tensor: its elements, and how many values each output is summed from, which sets the
 * scale of initial weights. */
struct tensor_shape {
    size_t count, inputs;
};

/* The tensors are in the order of the layers: weights and biases of the convolutions, if any, then
 * of the dense layers. */
struct model {
    int features;                        /* inputs of the first dense layer */
    int hidden;                          /* its outputs */
    unsigned drop_features, drop_hidden; /* chances of a dropout, in 256ths */
    int tensor_count;
    struct tensor_shape tensors[MODEL_TENSORS_MAX];
};

struct model model_of(enum network_model which);

/* Draws the initial weights of tensor number `tensor`: as many floats as it has elements. */
void model_draw(const struct model *model, int tensor, uint64_t seed, float *weights);

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

#endif
