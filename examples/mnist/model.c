/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/model.h"

#include <math.h>

#include "examples/mnist/conv.h"
#include "examples/mnist/images.h"
#include "examples/mnist/rng.h"

enum { CONV_HIDDEN = 128, MLP_HIDDEN = 512 };

/* Adds the weights and the biases of a layer. */
static void add_layer(struct model *model, int inputs, int outputs)
{
    struct tensor_shape *shape = &model->tensors[model->tensor_count];
    shape[0] = (struct tensor_shape){(size_t)inputs * (size_t)outputs, (size_t)inputs};
    shape[1] = (struct tensor_shape){(size_t)outputs, (size_t)inputs};
    model->tensor_count += 2;
}

struct model model_of(enum network_model which)
{
    struct model model = {.features = IMAGE_PIXELS, .hidden = MLP_HIDDEN};
    if (which == NETWORK_CONV) {
        model = (struct model){
            .features = POOL_SIZE, .hidden = CONV_HIDDEN, .drop_features = 64, .drop_hidden = 128};
        add_layer(&model, CONV_TAPS, CONV1_CHANNELS);
        add_layer(&model, CONV2_PATCH, CONV2_CHANNELS);
    }
    add_layer(&model, model.features, model.hidden);
    add_layer(&model, model.hidden, IMAGE_CLASSES);
    return model;
}

/* Uniform within 1 / sqrt(inputs), as PyTorch initialises such layers. */
void model_draw(const struct model *model, int tensor, uint64_t seed, float *weights)
{
    uint64_t stream = rng_stream(seed, RNG_INITIAL_WEIGHTS, (uint64_t)tensor);
    double bound = 1.0 / sqrt((double)model->tensors[tensor].inputs);
    for (size_t i = 0; i < model->tensors[tensor].count; i++)
        weights[i] = (float)rng_uniform(stream, i, -bound, bound);
}
