/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist/network.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "examples/mnist/conv.h"
#include "examples/mnist/images.h"
#include "examples/mnist/layers.h"
#include "examples/mnist/rng.h"
#include "examples/mnist/softmax.h"

struct network {
    enum network_model which;
    struct model model;
    int tensor_count;
    struct tensor tensors[MODEL_TENSORS_MAX];
    struct conv_parameters conv, conv_gradients;
    struct dense first, first_gradients, second, second_gradients;

    /* One row or element per image of a batch. */
    float *images;
    struct conv_trace *traces; /* NULL without convolutions */
    float *feature_rows, *feature_gradients;
    float *hidden_rows, *hidden_gradients;
    float *outputs;
    struct conv_scratch *scratch;
};

static bool add_tensor(struct network *network, size_t count)
{
    struct tensor *tensor = &network->tensors[network->tensor_count++];
    tensor->count = count;
    tensor->weights = calloc(count, sizeof *tensor->weights);
    tensor->gradients = calloc(count, sizeof *tensor->gradients);
    tensor->momentum = calloc(count, sizeof *tensor->momentum);
    return tensor->weights != NULL && tensor->gradients != NULL && tensor->momentum != NULL;
}

static void connect_dense(struct tensor *tensor, int inputs, int outputs, struct dense *layer,
                          struct dense *gradients)
{
    *layer = (struct dense){inputs, outputs, tensor[0].weights, tensor[1].weights};
    *gradients = (struct dense){inputs, outputs, tensor[0].gradients, tensor[1].gradients};
}

static bool add_tensors(struct network *network, const struct model *model, uint64_t seed)
{
    for (int t = 0; t < model->tensor_count; t++) {
        if (!add_tensor(network, model->tensors[t].count))
            return false;
        model_draw(model, t, seed, network->tensors[t].weights);
    }
    struct tensor *tensor = network->tensors;
    if (network->which == NETWORK_CONV) {
        network->conv = (struct conv_parameters){tensor[0].weights, tensor[1].weights,
                                                 tensor[2].weights, tensor[3].weights};
        network->conv_gradients = (struct conv_parameters){
            tensor[0].gradients, tensor[1].gradients, tensor[2].gradients, tensor[3].gradients};
        tensor += 4;
    }
    connect_dense(tensor, model->features, model->hidden, &network->first,
                  &network->first_gradients);
    connect_dense(tensor + 2, model->hidden, IMAGE_CLASSES, &network->second,
                  &network->second_gradients);
    return true;
}

static float *new_rows(int rows, int columns)
{
    return calloc((size_t)rows * (size_t)columns, sizeof(float));
}

static bool add_rows(struct network *network, int capacity)
{
    network->images = new_rows(capacity, IMAGE_PIXELS);
    network->hidden_rows = new_rows(capacity, network->model.hidden);
    network->hidden_gradients = new_rows(capacity, network->model.hidden);
    network->outputs = new_rows(capacity, IMAGE_CLASSES);
    if (network->which == NETWORK_CONV) {
        network->feature_rows = new_rows(capacity, network->model.features);
        network->feature_gradients = new_rows(capacity, network->model.features);
        network->traces = calloc((size_t)capacity, sizeof *network->traces);
        network->scratch = calloc(1, sizeof *network->scratch);
        if (network->feature_rows == NULL || network->feature_gradients == NULL ||
            network->traces == NULL || network->scratch == NULL)
            return false;
    }
    return network->images != NULL && network->hidden_rows != NULL &&
           network->hidden_gradients != NULL && network->outputs != NULL;
}

struct network *network_new(enum network_model which, int capacity, uint64_t seed)
{
    struct network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return NULL;
    network->which = which;
    network->model = model_of(which);
    if (!add_tensors(network, &network->model, seed) || !add_rows(network, capacity)) {
        network_free(network);
        return NULL;
    }
    return network;
}

void network_free(struct network *network)
{
    if (network == NULL)
        return;
    for (int t = 0; t < network->tensor_count; t++) {
        free(network->tensors[t].weights);
        free(network->tensors[t].gradients);
        free(network->tensors[t].momentum);
    }
    free(network->images);
    free(network->traces);
    free(network->feature_rows);
    free(network->feature_gradients);
    free(network->hidden_rows);
    free(network->hidden_gradients);
    free(network->outputs);
    free(network->scratch);
    free(network);
}

struct tensor *network_tensors(struct network *network, int *count)
{
    *count = network->tensor_count;
    return network->tensors;
}

static void load_images(struct network *network, const struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        float *image = network->images + (size_t)i * IMAGE_PIXELS;
        for (int p = 0; p < IMAGE_PIXELS; p++)
            image[p] = model_input(batch->pixels[i][p]);
    }
}

/* Runs the convolutions, or nothing where there are none; returns the first dense layer's inputs.
 */
static float *compute_features(struct network *network, int count)
{
    if (network->which != NETWORK_CONV)
        return network->images;
    for (int i = 0; i < count; i++)
        conv_forward(&network->conv, network->images + (size_t)i * IMAGE_PIXELS,
                     &network->traces[i], network->scratch,
                     network->feature_rows + (size_t)i * POOL_SIZE);
    return network->feature_rows;
}

static void drop_rows(float *rows, int count, int columns, unsigned drop_chance_256,
                      uint64_t stream, int first_item, uint64_t offset)
{
    for (int i = 0; i < count; i++)
        dropout(rows + (size_t)i * (size_t)columns, (size_t)columns, drop_chance_256, stream,
                (uint64_t)(first_item + i) * DROPOUT_COUNTERS_PER_IMAGE + offset);
}

/* Turns the outputs into their gradients and adds up what they are worth. */
static struct score judge(struct network *network, const struct batch *batch, float scale)
{
    struct score score = {0};
    for (int i = 0; i < batch->count; i++) {
        int answer = 0;
        score.loss += softmax_loss(network->outputs + (size_t)i * IMAGE_CLASSES, IMAGE_CLASSES,
                                   batch->labels[i], scale, &answer);
        score.correct += answer == batch->labels[i];
    }
    return score;
}

struct score network_evaluate(struct network *network, const struct batch *batch)
{
    load_images(network, batch);
    const float *features = compute_features(network, batch->count);
    dense_forward(&network->first, batch->count, features, network->hidden_rows);
    relu(network->hidden_rows, (size_t)batch->count * (size_t)network->model.hidden);
    dense_forward(&network->second, batch->count, network->hidden_rows, network->outputs);
    return judge(network, batch, 0.0F);
}

static void backward(struct network *network, int count, const float *features,
                     unsigned drop_features, unsigned drop_hidden)
{
    dense_backward(&network->second, &network->second_gradients, count, network->hidden_rows,
                   network->outputs, network->hidden_gradients);
    relu_dropout_backward(network->hidden_rows, network->hidden_gradients,
                          (size_t)count * (size_t)network->model.hidden, drop_hidden);
    dense_backward(&network->first, &network->first_gradients, count, features,
                   network->hidden_gradients, network->feature_gradients);
    if (network->which != NETWORK_CONV)
        return;
    relu_dropout_backward(features, network->feature_gradients, (size_t)count * POOL_SIZE,
                          drop_features);
    /* The dense layers set their gradients; the convolutions add theirs, image by image. */
    for (struct tensor *tensor = network->tensors; tensor < network->tensors + 4; tensor++)
        memset(tensor->gradients, 0, tensor->count * sizeof *tensor->gradients);
    for (int i = 0; i < count; i++)
        conv_backward(&network->conv, &network->conv_gradients,
                      network->images + (size_t)i * IMAGE_PIXELS, &network->traces[i],
                      network->feature_gradients + (size_t)i * POOL_SIZE, network->scratch);
}

struct score network_train(struct network *network, const struct batch *batch, float scale,
                           uint64_t dropout_stream, int first_item)
{
    if (batch->count == 0) {
        for (struct tensor *tensor = network->tensors;
             tensor < network->tensors + network->tensor_count; tensor++)
            memset(tensor->gradients, 0, tensor->count * sizeof *tensor->gradients);
        return (struct score){0};
    }
    bool conv = network->which == NETWORK_CONV;
    unsigned drop_features = network->model.drop_features, drop_hidden = network->model.drop_hidden;
    int count = batch->count;
    load_images(network, batch);
    float *features = compute_features(network, count);
    if (conv)
        drop_rows(features, count, network->model.features, drop_features, dropout_stream,
                  first_item, 0);
    dense_forward(&network->first, count, features, network->hidden_rows);
    relu(network->hidden_rows, (size_t)count * (size_t)network->model.hidden);
    if (conv)
        drop_rows(network->hidden_rows, count, network->model.hidden, drop_hidden, dropout_stream,
                  first_item, DROPOUT_HIDDEN_COUNTER);
    dense_forward(&network->second, count, network->hidden_rows, network->outputs);
    struct score score = judge(network, batch, scale);
    backward(network, count, features, drop_features, drop_hidden);
    return score;
}
