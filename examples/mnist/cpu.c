/* SPDX-License-Identifier: Apache-2.0 */
/* The processor as a device: BLAS for products, one MPI_Allreduce per tensor for sums. */
#include <cblas.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "examples/mnist/device.h"

/* Attribute of a function, for GCC on x86-64: the compiler makes a version per instruction set, and
 * the dynamic linker selects the best for this processor. Used for loops over whole maps and
 * tensors. Empty with AddressSanitizer, because the selection runs before the sanitizer's runtime
 * is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define SIMD_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define SIMD_CLONES
#endif

/* Values of one image's forward pass that its backward pass needs. */
struct conv_trace {
    float map1[CONV1_SIZE]; /* after the ReLU */
    /* index of each maximum among its four inputs: 2 * row + column */
    uint8_t winner[POOL_SIZE];
};

/* Memory for intermediate maps of one image. */
struct conv_scratch {
    float patches[CONV2_SIDE * CONV2_SIDE * CONV2_PATCH];
    float map2[CONV2_SIZE];
    float map1_gradient[CONV1_SIZE];
};

struct device {
    int ranks;
    int capacity; /* largest number of images in a batch */
    int count;    /* number of images in the last batch */
    struct score score;
    struct conv_trace *traces; /* one per image; NULL without convolutions */
    struct conv_scratch *scratch;
};

const char device_help[] = "";

bool device_start(void)
{
    /* An MPI job usually has one process per core: more threads would compete. */
    if (getenv("OPENBLAS_NUM_THREADS") == NULL)
        openblas_set_num_threads(1);
    return true;
}

struct device *device_new(const struct model *model, int capacity)
{
    struct device *device = host_memory(capacity, 1, sizeof *device);
    device->capacity = capacity;
    MPI_Comm_size(MPI_COMM_WORLD, &device->ranks);
    if (model->which == NETWORK_CONV) {
        device->traces = host_memory(capacity, (size_t)capacity, sizeof *device->traces);
        device->scratch = host_memory(capacity, 1, sizeof *device->scratch);
    }
    return device;
}

void device_end(struct device *device)
{
    (void)device;
}

float *device_floats(struct device *device, size_t count)
{
    return host_memory(device->capacity, count, sizeof(float));
}

void device_zero(struct device *device, float *values, size_t count)
{
    (void)device;
    memset(values, 0, count * sizeof *values);
}

void device_upload(struct device *device, float *values, const float *host, size_t count)
{
    (void)device;
    memcpy(values, host, count * sizeof *values);
}

void device_load(struct device *device, const struct batch *batch, float *images)
{
    device->count = batch->count;
    for (int i = 0; i < batch->count; i++)
        for (int p = 0; p < IMAGE_PIXELS; p++)
            *images++ = model_input(batch->pixels[i][p]);
}

SIMD_CLONES static void convolve1(const struct layer *layer, const float *image, float *map)
{
    for (int y = 0; y < CONV1_SIDE; y++) {
        for (int x = 0; x < CONV1_SIDE; x++) {
            float *restrict output = map + (y * CONV1_SIDE + x) * CONV1_CHANNELS;
            float inputs[CONV_TAPS];
            for (int tap = 0; tap < CONV_TAPS; tap++)
                inputs[tap] = image[(y + tap / CONV_KERNEL) * IMAGE_SIDE + x + tap % CONV_KERNEL];
            /* The loop over taps is inside and unrolled, so that the sums of many channels stay in
             * registers. */
            for (int c = 0; c < CONV1_CHANNELS; c++) {
                float sum = layer->bias[c];
                for (int tap = 0; tap < CONV_TAPS; tap++)
                    sum += inputs[tap] * layer->weights[tap * CONV1_CHANNELS + c];
                output[c] = sum > 0 ? sum : 0;
            }
        }
    }
}

/* Copies the inputs of each output into a row, so that the convolution is one matrix product. */
static void gather_patches(const float *map, float *patches)
{
    for (int y = 0; y < CONV2_SIDE; y++) {
        for (int x = 0; x < CONV2_SIDE; x++) {
            for (int row = 0; row < CONV_KERNEL; row++) {
                memcpy(patches, map + ((y + row) * CONV1_SIDE + x) * CONV1_CHANNELS,
                       CONV2_ROW * sizeof *patches);
                patches += CONV2_ROW;
            }
        }
    }
}

/* Computes features by max pooling. Applies bias and ReLU after the maximum, to a quarter of the
 * values: the result is the same. Has no branches, so that the compiler makes vectors of it. */
SIMD_CLONES static void pool(const float *restrict map, const float *restrict bias,
                             float *restrict features, uint8_t *restrict winner)
{
    const int down = CONV2_SIDE * CONV2_CHANNELS;
    for (int y = 0; y < POOL_SIDE; y++) {
        for (int x = 0; x < POOL_SIDE; x++) {
            const float *corner = map + (2 * y * CONV2_SIDE + 2 * x) * CONV2_CHANNELS;
            for (int c = 0; c < CONV2_CHANNELS; c++) {
                float left = corner[c], right = corner[c + CONV2_CHANNELS];
                float below = corner[c + down], opposite = corner[c + down + CONV2_CHANNELS];
                float above = right > left ? right : left;
                float under = opposite > below ? opposite : below;
                float best = under > above ? under : above;
                int not0 = left != best, not1 = not0 & (right != best);
                winner[c] = (uint8_t)(not0 + not1 + (not1 & (below != best)));
                best += bias[c];
                features[c] = best > 0 ? best : 0;
            }
            features += CONV2_CHANNELS;
            winner += CONV2_CHANNELS;
        }
    }
}

void device_convolve(struct device *device, const struct layer *layers, const float *images,
                     float *features)
{
    struct conv_scratch *scratch = device->scratch;
    for (int i = 0; i < device->count; i++, images += IMAGE_PIXELS, features += POOL_SIZE) {
        struct conv_trace *trace = &device->traces[i];
        convolve1(&layers[0], images, trace->map1);
        gather_patches(trace->map1, scratch->patches);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, CONV2_SIDE * CONV2_SIDE,
                    CONV2_CHANNELS, CONV2_PATCH, 1.0F, scratch->patches, CONV2_PATCH,
                    layers[1].weights, CONV2_PATCH, 0.0F, scratch->map2, CONV2_CHANNELS);
        pool(scratch->map2, layers[1].bias, features, trace->winner);
    }
}

/* Computes the gradients of the second convolution for one image. Visits only the winner of each
 * maximum: the others have no gradient, so at least three quarters of a matrix product would be
 * multiplications by zero. One channel at a time keeps its weights and their gradient in the L1
 * cache. */
SIMD_CLONES static void backward2(const float *restrict weight, float *restrict weight_gradient,
                                  float *restrict bias_gradient, const struct conv_trace *trace,
                                  const float *restrict feature_gradient,
                                  float *restrict map1_gradient)
{
    for (int c = 0; c < CONV2_CHANNELS; c++) {
        float bias_sum = 0;
        for (int position = 0; position < POOL_SIDE * POOL_SIDE; position++) {
            int feature = position * CONV2_CHANNELS + c;
            float gradient = feature_gradient[feature];
            if (gradient == 0)
                continue;
            int y = 2 * (position / POOL_SIDE) + (trace->winner[feature] >> 1);
            int x = 2 * (position % POOL_SIDE) + (trace->winner[feature] & 1);
            bias_sum += gradient;
            for (int row = 0; row < CONV_KERNEL; row++) {
                int corner = ((y + row) * CONV1_SIDE + x) * CONV1_CHANNELS;
                int tap = c * CONV2_PATCH + row * CONV2_ROW;
                for (int i = 0; i < CONV2_ROW; i++)
                    weight_gradient[tap + i] += gradient * trace->map1[corner + i];
                for (int i = 0; i < CONV2_ROW; i++)
                    map1_gradient[corner + i] += gradient * weight[tap + i];
            }
        }
        bias_gradient[c] += bias_sum;
    }
}

SIMD_CLONES static void backward1(const struct layer *layer, const float *image, const float *map1,
                                  float *map1_gradient)
{
    float bias_sum[CONV1_CHANNELS] = {0};
    float weight_sum[CONV_TAPS][CONV1_CHANNELS] = {{0}};
    for (int y = 0; y < CONV1_SIDE; y++) {
        for (int x = 0; x < CONV1_SIDE; x++) {
            int pixel = (y * CONV1_SIDE + x) * CONV1_CHANNELS;
            float *gradient = map1_gradient + pixel;
            for (int c = 0; c < CONV1_CHANNELS; c++) {
                gradient[c] = map1[pixel + c] > 0 ? gradient[c] : 0;
                bias_sum[c] += gradient[c];
            }
            for (int tap = 0; tap < CONV_TAPS; tap++) {
                float input = image[(y + tap / CONV_KERNEL) * IMAGE_SIDE + x + tap % CONV_KERNEL];
                for (int c = 0; c < CONV1_CHANNELS; c++)
                    weight_sum[tap][c] += input * gradient[c];
            }
        }
    }
    for (int c = 0; c < CONV1_CHANNELS; c++)
        layer->bias_gradients[c] += bias_sum[c];
    for (int i = 0; i < CONV_TAPS * CONV1_CHANNELS; i++)
        layer->weight_gradients[i] += weight_sum[i / CONV1_CHANNELS][i % CONV1_CHANNELS];
}

void device_convolve_backward(struct device *device, const struct layer *layers,
                              const float *images, const float *feature_gradients)
{
    float *map1_gradient = device->scratch->map1_gradient;
    /* Dense layers set their gradients; convolutions add theirs, image by image. */
    for (const struct layer *layer = layers; layer < layers + 2; layer++) {
        size_t outputs = (size_t)layer->outputs;
        device_zero(device, layer->weight_gradients, (size_t)layer->inputs * outputs);
        device_zero(device, layer->bias_gradients, outputs);
    }
    for (size_t i = 0; i < (size_t)device->count; i++) {
        const struct conv_trace *trace = &device->traces[i];
        device_zero(device, map1_gradient, CONV1_SIZE);
        backward2(layers[1].weights, layers[1].weight_gradients, layers[1].bias_gradients, trace,
                  feature_gradients + i * POOL_SIZE, map1_gradient);
        backward1(&layers[0], images + i * IMAGE_PIXELS, trace->map1, map1_gradient);
    }
}

SIMD_CLONES static void relu_all(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

void device_dense(struct device *device, const struct layer *layer, const float *values, bool relu,
                  float *results)
{
    size_t outputs = (size_t)layer->outputs;
    for (size_t row = 0; row < (size_t)device->count; row++)
        memcpy(results + row * outputs, layer->bias, outputs * sizeof *results);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, device->count, layer->outputs,
                layer->inputs, 1.0F, values, layer->inputs, layer->weights, layer->inputs, 1.0F,
                results, layer->outputs);
    if (relu)
        relu_all(results, (size_t)device->count * outputs);
}

void device_dense_backward(struct device *device, const struct layer *layer, const float *values,
                           const float *result_gradients, float *value_gradients)
{
    int outputs = layer->outputs;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, layer->inputs, device->count,
                1.0F, result_gradients, outputs, values, layer->inputs, 0.0F,
                layer->weight_gradients, layer->inputs);
    for (int output = 0; output < outputs; output++) {
        float sum = 0;
        for (int row = 0; row < device->count; row++)
            sum += result_gradients[(size_t)row * (size_t)outputs + (size_t)output];
        layer->bias_gradients[output] = sum;
    }
    if (value_gradients != NULL)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, device->count, layer->inputs,
                    outputs, 1.0F, result_gradients, outputs, layer->weights, layer->inputs, 0.0F,
                    value_gradients, layer->inputs);
}

SIMD_CLONES static void drop_row(float *values, size_t count, unsigned drop_chance_256,
                                 uint64_t stream, uint64_t first_counter)
{
    float scale = model_dropout_scale(drop_chance_256);
    for (size_t i = 0; i < count; i += DROPOUT_UNITS_PER_DRAW) {
        uint64_t bits = rng_bits(stream, first_counter + i / DROPOUT_UNITS_PER_DRAW);
        size_t end = count - i < DROPOUT_UNITS_PER_DRAW ? count - i : DROPOUT_UNITS_PER_DRAW;
        for (size_t j = 0; j < end; j++)
            values[i + j] *= ((bits >> 8 * j) & 255) < drop_chance_256 ? 0 : scale;
    }
}

void device_drop(struct device *device, float *rows, int columns, unsigned drop_chance_256,
                 uint64_t stream, int first_item, int offset)
{
    for (int i = 0; i < device->count; i++)
        drop_row(rows + (size_t)i * (size_t)columns, (size_t)columns, drop_chance_256, stream,
                 (uint64_t)(first_item + i) * DROPOUT_COUNTERS_PER_IMAGE + (uint64_t)offset);
}

SIMD_CLONES void device_relu_drop_backward(struct device *device, const float *values,
                                           float *gradients, int columns, unsigned drop_chance_256)
{
    float scale = model_dropout_scale(drop_chance_256);
    size_t count = (size_t)device->count * (size_t)columns;
    for (size_t i = 0; i < count; i++)
        gradients[i] = values[i] > 0 ? gradients[i] * scale : 0;
}

void device_judge(struct device *device, const struct batch *batch, float *outputs, float scale)
{
    device->score = (struct score){0};
    for (int i = 0; i < batch->count; i++, outputs += IMAGE_CLASSES) {
        const struct score score = model_judge(outputs, batch->labels[i], scale);
        device->score.loss += score.loss;
        device->score.correct += score.correct;
    }
}

struct score device_score(struct device *device)
{
    return device->score;
}

/* Makes a step of gradient descent with momentum; the gradients are sums over the ranks. */
SIMD_CLONES static void descend(float *restrict weights, float *restrict velocity,
                                const float *restrict gradients, size_t count, float ranks,
                                float learning_rate, float momentum)
{
    for (size_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + gradients[i] / ranks;
        weights[i] -= learning_rate * velocity[i];
    }
}

double device_step(struct device *device, const struct model *model, float *weights,
                   float *velocity, float *gradients, float learning_rate, float momentum)
{
    double begin = MPI_Wtime();
    float *tensor = gradients;
    for (int t = 0; t < 2 * model->layer_count; tensor += model_tensor_size(model, t++))
        MPI_Allreduce(MPI_IN_PLACE, tensor, model_tensor_size(model, t), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begin;
    descend(weights, velocity, gradients, model->parameters, (float)device->ranks, learning_rate,
            momentum);
    return seconds;
}
