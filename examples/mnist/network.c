/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/network.h"

#include <stdlib.h>

struct network {
    struct model model;
    struct device *device;
    float *weights, *gradients, *velocity; /* for each layer its weights, then its biases */
    struct layer layers[MODEL_LAYERS_MAX];
    const struct layer *first, *second; /* the dense layers */

    /* One row per image of a batch. */
    float *images;
    float *feature_rows, *feature_gradients; /* NULL without convolutions */
    float *hidden_rows, *hidden_gradients;
    float *outputs;
};

struct network *network_new(enum network_model which, int capacity, uint64_t seed)
{
    struct network *network = host_memory(capacity, 1, sizeof *network);
    struct model *model = &network->model;
    *model = model_of(which);
    struct device *device = network->device = device_new(model, capacity);
    const size_t rows = (size_t)capacity, parameters = model->parameters;
    const size_t hidden = rows * (size_t)model->layers[model->layer_count - 1].inputs;
    network->weights = device_floats(device, parameters);
    network->gradients = device_floats(device, parameters);
    network->velocity = device_floats(device, parameters);
    network->images = device_floats(device, rows * IMAGE_PIXELS);
    if (which == NETWORK_CONV) {
        network->feature_rows = device_floats(device, rows * POOL_SIZE);
        network->feature_gradients = device_floats(device, rows * POOL_SIZE);
    }
    network->hidden_rows = device_floats(device, hidden);
    network->hidden_gradients = device_floats(device, hidden);
    network->outputs = device_floats(device, rows * IMAGE_CLASSES);
    size_t at = 0;
    for (int l = 0; l < model->layer_count; l++) {
        const struct layer_shape *shape = &model->layers[l];
        const size_t bias = at + (size_t)shape->inputs * (size_t)shape->outputs;
        network->layers[l] = (struct layer){shape->inputs,           shape->outputs,
                                            network->weights + at,   network->weights + bias,
                                            network->gradients + at, network->gradients + bias};
        at = bias + (size_t)shape->outputs;
    }
    network->first = &network->layers[model->layer_count - 2];
    network->second = network->first + 1;

    float *drawn = host_memory(capacity, parameters, sizeof *drawn);
    model_draw(model, seed, drawn);
    device_upload(device, network->weights, drawn, parameters);
    free(drawn);
    return network;
}

void network_end(struct network *network)
{
    device_end(network->device);
}

/* Computes the convolutions, if any. Returns the first dense layer's inputs. */
static float *compute_features(struct network *network, const struct batch *batch)
{
    device_load(network->device, batch, network->images);
    if (network->model.which != NETWORK_CONV)
        return network->images;
    device_convolve(network->device, network->layers, network->images, network->feature_rows);
    return network->feature_rows;
}

struct score network_evaluate(struct network *network, const struct batch *batch)
{
    struct device *device = network->device;
    const float *features = compute_features(network, batch);
    device_dense(device, network->first, features, true, network->hidden_rows);
    device_dense(device, network->second, network->hidden_rows, false, network->outputs);
    device_judge(device, batch, network->outputs, 0.0F);
    return device_score(device);
}

/* Sets the gradients of all layers to `scale` times the sum over the batch. */
static void train(struct network *network, const struct batch *batch, float scale, uint64_t dropout,
                  int first_item)
{
    struct device *device = network->device;
    const struct model *model = &network->model;
    const struct layer *first = network->first, *second = network->second;
    float *features = compute_features(network, batch), *hidden = network->hidden_rows;
    if (model->drop_features > 0)
        device_drop(device, features, first->inputs, model->drop_features, dropout, first_item, 0);
    device_dense(device, first, features, true, hidden);
    if (model->drop_hidden > 0)
        device_drop(device, hidden, first->outputs, model->drop_hidden, dropout, first_item,
                    DROPOUT_HIDDEN_COUNTER);
    device_dense(device, second, hidden, false, network->outputs);
    device_judge(device, batch, network->outputs, scale);

    device_dense_backward(device, second, hidden, network->outputs, network->hidden_gradients);
    device_relu_drop_backward(device, hidden, network->hidden_gradients, first->outputs,
                              model->drop_hidden);
    device_dense_backward(device, first, features, network->hidden_gradients,
                          network->feature_gradients);
    if (model->which != NETWORK_CONV)
        return;
    device_relu_drop_backward(device, features, network->feature_gradients, first->inputs,
                              model->drop_features);
    device_convolve_backward(device, network->layers, network->images, network->feature_gradients);
}

struct score network_step(struct network *network, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum,
                          double *allreduce_seconds)
{
    if (batch->count > 0)
        train(network, batch, scale, dropout, first_item);
    else
        device_zero(network->device, network->gradients, network->model.parameters);
    *allreduce_seconds +=
        device_step(network->device, &network->model, network->weights, network->velocity,
                    network->gradients, learning_rate, momentum);
    return batch->count > 0 ? device_score(network->device) : (struct score){0};
}
