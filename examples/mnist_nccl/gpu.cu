/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a device: cuBLAS for the products, the kernels of device.cuh for the rest, and one
 * ncclAllReduce of all gradients as one buffer. All work is on one stream. The ranks of a host take
 * its GPUs in turn; MPI distributes NCCL's id. */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/mnist/device.h"
#include "examples/mnist_nccl/device.cuh"

enum { THREADS = 256, BLOCKS_MAX = 4096 };
enum { CONV1_OUTPUTS = CONV1_SIDE * CONV1_SIDE, CONV2_OUTPUTS = CONV2_SIDE * CONV2_SIDE };

struct device {
    int count; /* images of the last batch */
    cudaStream_t stream;
    cublasHandle_t blas;
    ncclComm_t comm;
    cudaEvent_t before, after; /* around the all-reduce */
    float *ones;               /* array of ones, one for each row of the tallest matrix */

    /* Arrays with the same number of elements for each image of a batch. */
    uint8_t *pixels, *labels;
    /* From here to `winner`: NULL in a model without convolutions. */
    float *patches1, *map1, *map1_gradients;
    float *patches2, *map2; /* overwritten by their gradients */
    uint8_t *winner;
    struct score *scores;

    /* Copies of pixels, labels and scores in pinned host memory. */
    uint8_t *host_pixels, *host_labels;
    struct score *host_scores;
};

const char device_help[] = "Each rank computes on the GPU of its number on its host; without a "
                           "GPU the exit status is 3.\n";

/* If a call fails, prints the call, the rank and the reason, and aborts the job. */
#define CUDA(call) check_cuda((call), #call)
#define CUBLAS(call) check_cublas((call), #call)
#define NCCL(call) check_nccl((call), #call)

static void stop(const char *call, const char *why)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "%s: rank %d: %s: %s\n", program_invocation_short_name, rank, call, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_cuda(cudaError_t status, const char *call)
{
    if (status == cudaErrorMemoryAllocation)
        stop(call, "no memory left on the GPU: try a smaller --batch");
    if (status != cudaSuccess)
        stop(call, cudaGetErrorString(status));
}

static void check_cublas(cublasStatus_t status, const char *call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        stop(call, cublasGetStatusString(status));
}

static void check_nccl(ncclResult_t status, const char *call)
{
    if (status != ncclSuccess)
        stop(call, ncclGetErrorString(status));
}

/* Starts a kernel with a thread per element, or fewer threads that loop. */
#define LAUNCH(kernel, count, ...)                                                                 \
    do {                                                                                           \
        const size_t blocks = ((count) + THREADS - 1) / THREADS;                                   \
        const unsigned grid = blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX;                 \
        kernel<<<grid, THREADS, 0, device->stream>>>(__VA_ARGS__, count);                          \
        check_cuda(cudaGetLastError(), #kernel);                                                   \
    } while (0)

/* Returns the rank's index among those of its host. */
static int local_rank(void)
{
    MPI_Comm host;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    return rank;
}

bool device_start(void)
{
    int rank = 0, ranks = 1, devices = 0, first = 0, local = local_rank();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess)
        status = devices > 0 ? cudaSetDevice(local % devices) : cudaErrorNoDevice;
    int without = status == cudaSuccess ? ranks : rank;
    MPI_Allreduce(&without, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == rank)
        fprintf(stderr, "%s: no GPU can be used by rank %d: %s\n", program_invocation_short_name,
                rank, cudaGetErrorString(status));
    return first == ranks;
}

/* Returns a communicator of all ranks of MPI_COMM_WORLD (collective). */
static ncclComm_t new_communicator(void)
{
    int rank = 0, ranks = 1;
    ncclUniqueId id;
    ncclComm_t comm;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    return comm;
}

static void *device_memory(size_t elements, size_t size)
{
    void *memory = NULL;
    CUDA(cudaMalloc(&memory, elements * size));
    return memory;
}

static void *pinned_memory(size_t elements, size_t size)
{
    void *memory = NULL;
    CUDA(cudaMallocHost(&memory, elements * size));
    return memory;
}

float *device_floats(struct device *device, size_t count)
{
    float *values = (float *)device_memory(count, sizeof *values);
    device_zero(device, values, count);
    return values;
}

void device_zero(struct device *device, float *values, size_t count)
{
    CUDA(cudaMemsetAsync(values, 0, count * sizeof *values, device->stream));
}

void device_upload(struct device *device, float *values, const float *host, size_t count)
{
    CUDA(cudaMemcpyAsync(values, host, count * sizeof *values, cudaMemcpyHostToDevice,
                         device->stream));
    CUDA(cudaStreamSynchronize(device->stream));
}

static void add_maps(struct device *device, size_t capacity)
{
    device->patches1 = device_floats(device, capacity * CONV1_OUTPUTS * CONV_TAPS);
    device->map1 = device_floats(device, capacity * CONV1_SIZE);
    device->map1_gradients = device_floats(device, capacity * CONV1_SIZE);
    device->patches2 = device_floats(device, capacity * CONV2_OUTPUTS * CONV2_PATCH);
    device->map2 = device_floats(device, capacity * CONV2_SIZE);
    device->winner = (uint8_t *)device_memory(capacity, POOL_SIZE);
}

static void add_ones(struct device *device, int capacity, size_t count)
{
    float *host = (float *)host_memory(capacity, count, sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = 1;
    device->ones = device_floats(device, count);
    device_upload(device, device->ones, host, count);
    free(host);
}

struct device *device_new(const struct model *model, int capacity)
{
    const bool convolves = model->which == NETWORK_CONV;
    const size_t images = (size_t)capacity;
    struct device *device = (struct device *)host_memory(capacity, 1, sizeof *device);
    device->comm = new_communicator();
    CUDA(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&device->before));
    CUDA(cudaEventCreate(&device->after));
    CUBLAS(cublasCreate(&device->blas));
    CUBLAS(cublasSetStream(device->blas, device->stream));
    device->pixels = (uint8_t *)device_memory(images, IMAGE_PIXELS);
    device->labels = (uint8_t *)device_memory(images, 1);
    device->scores = (struct score *)device_memory(images, sizeof *device->scores);
    device->host_pixels = (uint8_t *)pinned_memory(images, IMAGE_PIXELS);
    device->host_labels = (uint8_t *)pinned_memory(images, 1);
    device->host_scores = (struct score *)pinned_memory(images, sizeof *device->host_scores);
    if (convolves)
        add_maps(device, images);
    add_ones(device, capacity, convolves ? images * CONV1_OUTPUTS : images);
    return device;
}

void device_end(struct device *device)
{
    CUDA(cudaStreamSynchronize(device->stream));
    NCCL(ncclCommDestroy(device->comm));
}

/* A row-major matrix, or its transpose. */
struct matrix {
    const float *values;
    int columns; /* columns of the stored matrix */
    cublasOperation_t transposed;
};

static struct matrix as_stored(const float *values, int columns)
{
    return {values, columns, CUBLAS_OP_N};
}

static struct matrix transposed(const float *values, int columns)
{
    return {values, columns, CUBLAS_OP_T};
}

/* result[rows][columns] = left[rows][inner] * right[inner][columns], all row-major. cuBLAS is
 * column-major, so it sees transposes: right^T * left^T = result^T. */
static void multiply(struct device *device, int rows, int columns, int inner, struct matrix left,
                     struct matrix right, float *result)
{
    const float one = 1, zero = 0;
    CUBLAS(cublasSgemm(device->blas, right.transposed, left.transposed, columns, rows, inner, &one,
                       right.values, right.columns, left.values, left.columns, &zero, result,
                       columns));
}

/* sums[columns] = sum of the rows, also as a product that cuBLAS sees transposed. */
static void sum_rows(struct device *device, int rows, int columns, const float *values, float *sums)
{
    const float one = 1, zero = 0;
    CUBLAS(cublasSgemv(device->blas, CUBLAS_OP_N, columns, rows, &one, values, columns,
                       device->ones, 1, &zero, sums, 1));
}

void device_load(struct device *device, const struct batch *batch, float *images)
{
    const size_t count = (size_t)batch->count;
    device->count = batch->count;
    for (size_t i = 0; i < count; i++)
        memcpy(device->host_pixels + i * IMAGE_PIXELS, batch->pixels[i], IMAGE_PIXELS);
    memcpy(device->host_labels, batch->labels, count);
    CUDA(cudaMemcpyAsync(device->pixels, device->host_pixels, count * IMAGE_PIXELS,
                         cudaMemcpyHostToDevice, device->stream));
    CUDA(cudaMemcpyAsync(device->labels, device->host_labels, count, cudaMemcpyHostToDevice,
                         device->stream));
    LAUNCH(mnist_normalise, count * IMAGE_PIXELS, device->pixels, images);
}

void device_convolve(struct device *device, const struct layer *layers, const float *images,
                     float *features)
{
    const size_t count = (size_t)device->count;
    const int rows1 = device->count * CONV1_OUTPUTS, rows2 = device->count * CONV2_OUTPUTS;
    LAUNCH(mnist_gather_patches, count * CONV1_OUTPUTS * CONV_TAPS, images, device->patches1,
           IMAGE_SIDE, 1);
    multiply(device, rows1, CONV1_CHANNELS, CONV_TAPS, as_stored(device->patches1, CONV_TAPS),
             as_stored(layers[0].weights, CONV1_CHANNELS), device->map1);
    LAUNCH(mnist_add_bias, count * CONV1_SIZE, device->map1, layers[0].bias, CONV1_CHANNELS, true);
    LAUNCH(mnist_gather_patches, count * CONV2_OUTPUTS * CONV2_PATCH, device->map1,
           device->patches2, CONV1_SIDE, CONV1_CHANNELS);
    multiply(device, rows2, CONV2_CHANNELS, CONV2_PATCH, as_stored(device->patches2, CONV2_PATCH),
             transposed(layers[1].weights, CONV2_PATCH), device->map2);
    LAUNCH(mnist_pool, count * POOL_SIZE, device->map2, layers[1].bias, features, device->winner);
}

/* Overwrites the second convolution's outputs and patches by their gradients. */
void device_convolve_backward(struct device *device, const struct layer *layers,
                              const float *images, const float *feature_gradients)
{
    const size_t count = (size_t)device->count;
    const int rows1 = device->count * CONV1_OUTPUTS, rows2 = device->count * CONV2_OUTPUTS;
    (void)images;
    LAUNCH(mnist_unpool, count * POOL_SIZE, feature_gradients, device->winner, device->map2);
    multiply(device, CONV2_CHANNELS, CONV2_PATCH, rows2, transposed(device->map2, CONV2_CHANNELS),
             as_stored(device->patches2, CONV2_PATCH), layers[1].weight_gradients);
    sum_rows(device, rows2, CONV2_CHANNELS, device->map2, layers[1].bias_gradients);
    multiply(device, rows2, CONV2_PATCH, CONV2_CHANNELS, as_stored(device->map2, CONV2_CHANNELS),
             as_stored(layers[1].weights, CONV2_PATCH), device->patches2);
    LAUNCH(mnist_scatter_patches, count * CONV1_SIZE, device->patches2, device->map1,
           device->map1_gradients);
    multiply(device, CONV_TAPS, CONV1_CHANNELS, rows1, transposed(device->patches1, CONV_TAPS),
             as_stored(device->map1_gradients, CONV1_CHANNELS), layers[0].weight_gradients);
    sum_rows(device, rows1, CONV1_CHANNELS, device->map1_gradients, layers[0].bias_gradients);
}

void device_dense(struct device *device, const struct layer *layer, const float *values, bool relu,
                  float *results)
{
    const size_t count = (size_t)device->count * (size_t)layer->outputs;
    multiply(device, device->count, layer->outputs, layer->inputs, as_stored(values, layer->inputs),
             transposed(layer->weights, layer->inputs), results);
    LAUNCH(mnist_add_bias, count, results, layer->bias, layer->outputs, relu);
}

void device_dense_backward(struct device *device, const struct layer *layer, const float *values,
                           const float *result_gradients, float *value_gradients)
{
    multiply(device, layer->outputs, layer->inputs, device->count,
             transposed(result_gradients, layer->outputs), as_stored(values, layer->inputs),
             layer->weight_gradients);
    sum_rows(device, device->count, layer->outputs, result_gradients, layer->bias_gradients);
    if (value_gradients != NULL)
        multiply(device, device->count, layer->inputs, layer->outputs,
                 as_stored(result_gradients, layer->outputs),
                 as_stored(layer->weights, layer->inputs), value_gradients);
}

void device_drop(struct device *device, float *rows, int columns, unsigned drop_chance_256,
                 uint64_t stream, int first_item, int offset)
{
    LAUNCH(mnist_dropout, (size_t)device->count * (size_t)columns, rows, columns, drop_chance_256,
           stream, first_item, offset);
}

void device_relu_drop_backward(struct device *device, const float *values, float *gradients,
                               int columns, unsigned drop_chance_256)
{
    LAUNCH(mnist_relu_dropout_backward, (size_t)device->count * (size_t)columns, values, gradients,
           drop_chance_256);
}

void device_judge(struct device *device, const struct batch *batch, float *outputs, float scale)
{
    const size_t count = (size_t)batch->count;
    LAUNCH(mnist_judge, count, outputs, device->labels, scale, device->scores);
    CUDA(cudaMemcpyAsync(device->host_scores, device->scores, count * sizeof *device->scores,
                         cudaMemcpyDeviceToHost, device->stream));
}

struct score device_score(struct device *device)
{
    struct score score = {0, 0};
    CUDA(cudaStreamSynchronize(device->stream));
    for (int i = 0; i < device->count; i++) {
        score.loss += device->host_scores[i].loss;
        score.correct += device->host_scores[i].correct;
    }
    return score;
}

double device_step(struct device *device, const struct model *model, float *weights,
                   float *velocity, float *gradients, float learning_rate, float momentum)
{
    float milliseconds = 0;
    CUDA(cudaEventRecord(device->before, device->stream));
    NCCL(ncclAllReduce(gradients, gradients, model->parameters, ncclFloat, ncclAvg, device->comm,
                       device->stream));
    CUDA(cudaEventRecord(device->after, device->stream));
    LAUNCH(mnist_descend, model->parameters, weights, velocity, gradients, learning_rate, momentum);
    CUDA(cudaStreamSynchronize(device->stream));
    CUDA(cudaEventElapsedTime(&milliseconds, device->before, device->after));
    return milliseconds / 1e3;
}
