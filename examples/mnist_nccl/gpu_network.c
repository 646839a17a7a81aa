/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/mnist_nccl/gpu_network.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "examples/mnist/conv.h"
#include "examples/mnist_nccl/kernels.h"
#include "examples/mnist_nccl/status.h"

/* A dense layer, or a convolution by patches: its parameters or their gradients. */
struct layer {
    int inputs, outputs;
    float *weights, *bias;
};

struct gpu_network {
    enum network_model which;
    struct model model;
    size_t parameters;
    int capacity;
    int count; /* images of the last batch */
    cudaStream_t stream;
    cublasHandle_t blas;
    float *weights, *gradients; /* all tensors */
    struct layer conv1, conv2, first, second;
    struct layer conv1_gradients, conv2_gradients, first_gradients, second_gradients;
    float *ones; /* as many as the tallest matrix has rows */

    /* One row or element per image of a batch. */
    uint8_t *pixels, *labels;
    float *images;
    float *patches1, *map1, *map1_gradients; /* NULL without convolutions, down to winner */
    float *patches2, *map2;                  /* patches2 and map2 become their own gradients */
    uint8_t *winner;
    float *feature_rows, *feature_gradients;
    float *hidden_rows, *hidden_gradients;
    float *outputs;
    double *losses;
    uint8_t *correct;

    /* Their ends on the host, in memory that copies need not wait for. */
    uint8_t *host_pixels, *host_labels, *host_correct;
    double *host_losses;
};

enum { CONV1_OUTPUTS = CONV1_SIDE * CONV1_SIDE, CONV2_OUTPUTS = CONV2_SIDE * CONV2_SIDE };

static void *device_memory(size_t elements, size_t size)
{
    void *memory = NULL;
    CUDA(cudaMalloc(&memory, elements * size));
    return memory;
}

static float *device_floats(size_t rows, size_t columns)
{
    return device_memory(rows * columns, sizeof(float));
}

static void *host_memory(size_t elements, size_t size)
{
    void *memory = NULL;
    CUDA(cudaMallocHost(&memory, elements * size));
    return memory;
}

static void add_rows(struct gpu_network *network, size_t capacity)
{
    const struct model *model = &network->model;
    network->pixels = device_memory(capacity, IMAGE_PIXELS);
    network->labels = device_memory(capacity, 1);
    network->images = device_floats(capacity, IMAGE_PIXELS);
    network->hidden_rows = device_floats(capacity, (size_t)model->hidden);
    network->hidden_gradients = device_floats(capacity, (size_t)model->hidden);
    network->outputs = device_floats(capacity, IMAGE_CLASSES);
    network->losses = device_memory(capacity, sizeof *network->losses);
    network->correct = device_memory(capacity, 1);
    network->host_pixels = host_memory(capacity, IMAGE_PIXELS);
    network->host_labels = host_memory(capacity, 1);
    network->host_losses = host_memory(capacity, sizeof *network->host_losses);
    network->host_correct = host_memory(capacity, 1);
    if (network->which != NETWORK_CONV)
        return;
    network->patches1 = device_floats(capacity * CONV1_OUTPUTS, CONV_TAPS);
    network->map1 = device_floats(capacity, CONV1_SIZE);
    network->map1_gradients = device_floats(capacity, CONV1_SIZE);
    network->patches2 = device_floats(capacity * CONV2_OUTPUTS, CONV2_PATCH);
    network->map2 = device_floats(capacity, CONV2_SIZE);
    network->winner = device_memory(capacity, POOL_SIZE);
    network->feature_rows = device_floats(capacity, POOL_SIZE);
    network->feature_gradients = device_floats(capacity, POOL_SIZE);
}

/* Points at the next layer's parameters in a buffer of all; returns what comes after them. */
static float *attach(struct layer *layer, int inputs, int outputs, float *buffer)
{
    float *bias = buffer + (size_t)inputs * (size_t)outputs;
    *layer = (struct layer){inputs, outputs, buffer, bias};
    return bias + outputs;
}

static void connect_layers(struct gpu_network *network)
{
    const struct model *model = &network->model;
    float *weights = network->weights, *gradients = network->gradients;
    if (network->which == NETWORK_CONV) {
        weights = attach(&network->conv1, CONV_TAPS, CONV1_CHANNELS, weights);
        weights = attach(&network->conv2, CONV2_PATCH, CONV2_CHANNELS, weights);
        gradients = attach(&network->conv1_gradients, CONV_TAPS, CONV1_CHANNELS, gradients);
        gradients = attach(&network->conv2_gradients, CONV2_PATCH, CONV2_CHANNELS, gradients);
    }
    weights = attach(&network->first, model->features, model->hidden, weights);
    attach(&network->second, model->hidden, IMAGE_CLASSES, weights);
    gradients = attach(&network->first_gradients, model->features, model->hidden, gradients);
    attach(&network->second_gradients, model->hidden, IMAGE_CLASSES, gradients);
}

/* Puts the initial weights and the ones on the device. */
static bool upload(struct gpu_network *network, uint64_t seed)
{
    size_t rows =
        (size_t)network->capacity * (network->which == NETWORK_CONV ? (size_t)CONV1_OUTPUTS : 1);
    size_t values = rows > network->parameters ? rows : network->parameters;
    float *host = malloc(values * sizeof *host), *next = host;
    if (host == NULL)
        return false;
    network->ones = device_floats(rows, 1);
    for (int t = 0; t < network->model.tensor_count; t++) {
        model_draw(&network->model, t, seed, next);
        next += network->model.tensors[t].count;
    }
    CUDA(cudaMemcpy(network->weights, host, network->parameters * sizeof *host,
                    cudaMemcpyHostToDevice));
    for (size_t i = 0; i < rows; i++)
        host[i] = 1;
    CUDA(cudaMemcpy(network->ones, host, rows * sizeof *host, cudaMemcpyHostToDevice));
    free(host);
    return true;
}

struct gpu_network *gpu_network_new(enum network_model which, int capacity, uint64_t seed,
                                    cudaStream_t stream)
{
    struct gpu_network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return NULL;
    network->which = which;
    network->model = model_of(which);
    network->capacity = capacity;
    network->stream = stream;
    for (int t = 0; t < network->model.tensor_count; t++)
        network->parameters += network->model.tensors[t].count;
    CUBLAS(cublasCreate(&network->blas));
    CUBLAS(cublasSetStream(network->blas, stream));
    network->weights = device_floats(network->parameters, 1);
    network->gradients = device_floats(network->parameters, 1);
    connect_layers(network);
    add_rows(network, (size_t)capacity);
    if (!upload(network, seed)) {
        gpu_network_free(network);
        return NULL;
    }
    return network;
}

void gpu_network_free(struct gpu_network *network)
{
    if (network == NULL)
        return;
    void *device[] = {network->weights,        network->gradients,
                      network->ones,           network->pixels,
                      network->labels,         network->images,
                      network->patches1,       network->map1,
                      network->map1_gradients, network->patches2,
                      network->map2,           network->winner,
                      network->feature_rows,   network->feature_gradients,
                      network->hidden_rows,    network->hidden_gradients,
                      network->outputs,        network->losses,
                      network->correct};
    void *host[] = {network->host_pixels, network->host_labels, network->host_losses,
                    network->host_correct};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        CUDA(cudaFree(device[i]));
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        CUDA(cudaFreeHost(host[i]));
    CUBLAS(cublasDestroy(network->blas));
    free(network);
}

float *gpu_network_weights(struct gpu_network *network)
{
    return network->weights;
}

float *gpu_network_gradients(struct gpu_network *network)
{
    return network->gradients;
}

size_t gpu_network_parameters(const struct gpu_network *network)
{
    return network->parameters;
}

/* A matrix as it lies in memory, row by row; or its transpose. */
struct matrix {
    const float *values;
    int columns; /* as stored */
    cublasOperation_t transposed;
};

static struct matrix as_stored(const float *values, int columns)
{
    return (struct matrix){values, columns, CUBLAS_OP_N};
}

static struct matrix transposed(const float *values, int columns)
{
    return (struct matrix){values, columns, CUBLAS_OP_T};
}

/* result[rows][columns] = left[rows][inner] * right[inner][columns], all row by row. cuBLAS goes by
 * columns and so sees each transposed: right^T * left^T = result^T. */
static void multiply(struct gpu_network *network, int rows, int columns, int inner,
                     struct matrix left, struct matrix right, float *result)
{
    const float one = 1, zero = 0;
    CUBLAS(cublasSgemm(network->blas, right.transposed, left.transposed, columns, rows, inner, &one,
                       right.values, right.columns, left.values, left.columns, &zero, result,
                       columns));
}

/* sums[columns] = the rows' sum; again a matrix that cuBLAS sees transposed. */
static void sum_rows(struct gpu_network *network, int rows, int columns, const float *values,
                     float *sums)
{
    const float one = 1, zero = 0;
    CUBLAS(cublasSgemv(network->blas, CUBLAS_OP_N, columns, rows, &one, values, columns,
                       network->ones, 1, &zero, sums, 1));
}

static void load(struct gpu_network *network, const struct batch *batch)
{
    size_t count = (size_t)batch->count;
    network->count = batch->count;
    for (size_t i = 0; i < count; i++)
        memcpy(network->host_pixels + i * IMAGE_PIXELS, batch->pixels[i], IMAGE_PIXELS);
    memcpy(network->host_labels, batch->labels, count);
    CUDA(cudaMemcpyAsync(network->pixels, network->host_pixels, count * IMAGE_PIXELS,
                         cudaMemcpyHostToDevice, network->stream));
    CUDA(cudaMemcpyAsync(network->labels, network->host_labels, count, cudaMemcpyHostToDevice,
                         network->stream));
    CUDA(
        kernels_normalise(network->pixels, network->images, count * IMAGE_PIXELS, network->stream));
}

/* Runs the convolutions, or nothing where there are none; returns the first dense layer's inputs.
 */
static float *compute_features(struct gpu_network *network)
{
    if (network->which != NETWORK_CONV)
        return network->images;
    int count = network->count, rows1 = count * CONV1_OUTPUTS, rows2 = count * CONV2_OUTPUTS;
    size_t images = (size_t)count;
    cudaStream_t stream = network->stream;
    CUDA(kernels_gather_patches(network->images, network->patches1, IMAGE_SIDE, 1,
                                images * CONV1_OUTPUTS * CONV_TAPS, stream));
    multiply(network, rows1, CONV1_CHANNELS, CONV_TAPS, as_stored(network->patches1, CONV_TAPS),
             as_stored(network->conv1.weights, CONV1_CHANNELS), network->map1);
    CUDA(kernels_add_bias_relu(network->map1, network->conv1.bias, CONV1_CHANNELS,
                               images * CONV1_SIZE, stream));
    CUDA(kernels_gather_patches(network->map1, network->patches2, CONV1_SIDE, CONV1_CHANNELS,
                                images * CONV2_OUTPUTS * CONV2_PATCH, stream));
    multiply(network, rows2, CONV2_CHANNELS, CONV2_PATCH, as_stored(network->patches2, CONV2_PATCH),
             transposed(network->conv2.weights, CONV2_PATCH), network->map2);
    CUDA(kernels_pool(network->map2, network->conv2.bias, network->feature_rows, network->winner,
                      images * POOL_SIZE, stream));
    return network->feature_rows;
}

/* results[count][outputs] = values[count][inputs] * weights^T; the bias is the caller's. */
static void dense_forward(struct gpu_network *network, const struct layer *layer,
                          const float *values, float *results)
{
    multiply(network, network->count, layer->outputs, layer->inputs,
             as_stored(values, layer->inputs), transposed(layer->weights, layer->inputs), results);
}

/* Sets `gradients` from the gradient of the results, and value_gradient unless it is NULL. */
static void dense_backward(struct gpu_network *network, const struct layer *layer,
                           const struct layer *gradients, const float *values,
                           const float *result_gradient, float *value_gradient)
{
    multiply(network, layer->outputs, layer->inputs, network->count,
             transposed(result_gradient, layer->outputs), as_stored(values, layer->inputs),
             gradients->weights);
    sum_rows(network, network->count, layer->outputs, result_gradient, gradients->bias);
    if (value_gradient != NULL)
        multiply(network, network->count, layer->inputs, layer->outputs,
                 as_stored(result_gradient, layer->outputs),
                 as_stored(layer->weights, layer->inputs), value_gradient);
}

/* From the gradient of the features; the gradients of the second convolution's outputs and patches
 * take the place of these. */
static void convolutions_backward(struct gpu_network *network)
{
    int rows1 = network->count * CONV1_OUTPUTS, rows2 = network->count * CONV2_OUTPUTS;
    size_t images = (size_t)network->count;
    CUDA(kernels_unpool(network->feature_gradients, network->winner, network->map2,
                        images * POOL_SIZE, network->stream));
    multiply(network, CONV2_CHANNELS, CONV2_PATCH, rows2, transposed(network->map2, CONV2_CHANNELS),
             as_stored(network->patches2, CONV2_PATCH), network->conv2_gradients.weights);
    sum_rows(network, rows2, CONV2_CHANNELS, network->map2, network->conv2_gradients.bias);
    multiply(network, rows2, CONV2_PATCH, CONV2_CHANNELS, as_stored(network->map2, CONV2_CHANNELS),
             as_stored(network->conv2.weights, CONV2_PATCH), network->patches2);
    CUDA(kernels_scatter_patches(network->patches2, network->map1, network->map1_gradients,
                                 images * CONV1_SIZE, network->stream));
    multiply(network, CONV_TAPS, CONV1_CHANNELS, rows1, transposed(network->patches1, CONV_TAPS),
             as_stored(network->map1_gradients, CONV1_CHANNELS), network->conv1_gradients.weights);
    sum_rows(network, rows1, CONV1_CHANNELS, network->map1_gradients,
             network->conv1_gradients.bias);
}

static void drop(struct gpu_network *network, float *rows, int columns, unsigned chance_256,
                 uint64_t dropout, int first_item, int offset)
{
    if (chance_256 > 0)
        CUDA(kernels_dropout(rows, columns, chance_256, dropout, first_item, offset,
                             (size_t)network->count * (size_t)columns, network->stream));
}

/* Turns the outputs into their gradients, and sends what they are worth to the host. */
static void judge(struct gpu_network *network, float scale)
{
    size_t count = (size_t)network->count;
    CUDA(kernels_add_bias(network->outputs, network->second.bias, IMAGE_CLASSES,
                          count * IMAGE_CLASSES, network->stream));
    CUDA(kernels_judge(network->outputs, network->labels, scale, network->losses, network->correct,
                       count, network->stream));
    CUDA(cudaMemcpyAsync(network->host_losses, network->losses, count * sizeof *network->losses,
                         cudaMemcpyDeviceToHost, network->stream));
    CUDA(cudaMemcpyAsync(network->host_correct, network->correct, count, cudaMemcpyDeviceToHost,
                         network->stream));
}

void gpu_network_evaluate(struct gpu_network *network, const struct batch *batch)
{
    load(network, batch);
    size_t hidden = (size_t)batch->count * (size_t)network->model.hidden;
    dense_forward(network, &network->first, compute_features(network), network->hidden_rows);
    CUDA(kernels_add_bias_relu(network->hidden_rows, network->first.bias, network->model.hidden,
                               hidden, network->stream));
    dense_forward(network, &network->second, network->hidden_rows, network->outputs);
    judge(network, 0);
}

void gpu_network_train(struct gpu_network *network, const struct batch *batch, float scale,
                       uint64_t dropout, int first_item)
{
    const struct model *model = &network->model;
    if (batch->count == 0) {
        network->count = 0;
        CUDA(cudaMemsetAsync(network->gradients, 0,
                             network->parameters * sizeof *network->gradients, network->stream));
        return;
    }
    load(network, batch);
    size_t hidden = (size_t)batch->count * (size_t)model->hidden;
    float *features = compute_features(network);
    drop(network, features, model->features, model->drop_features, dropout, first_item, 0);
    dense_forward(network, &network->first, features, network->hidden_rows);
    CUDA(kernels_add_bias_relu(network->hidden_rows, network->first.bias, model->hidden, hidden,
                               network->stream));
    drop(network, network->hidden_rows, model->hidden, model->drop_hidden, dropout, first_item,
         DROPOUT_HIDDEN_COUNTER);
    dense_forward(network, &network->second, network->hidden_rows, network->outputs);
    judge(network, scale);

    dense_backward(network, &network->second, &network->second_gradients, network->hidden_rows,
                   network->outputs, network->hidden_gradients);
    CUDA(kernels_relu_dropout_backward(network->hidden_rows, network->hidden_gradients,
                                       model->drop_hidden, hidden, network->stream));
    dense_backward(network, &network->first, &network->first_gradients, features,
                   network->hidden_gradients, network->feature_gradients);
    if (network->which != NETWORK_CONV)
        return;
    CUDA(kernels_relu_dropout_backward(features, network->feature_gradients, model->drop_features,
                                       (size_t)batch->count * POOL_SIZE, network->stream));
    convolutions_backward(network);
}

struct score gpu_network_score(struct gpu_network *network)
{
    struct score score = {0};
    CUDA(cudaStreamSynchronize(network->stream));
    for (int i = 0; i < network->count; i++) {
        score.loss += network->host_losses[i];
        score.correct += network->host_correct[i];
    }
    return score;
}
