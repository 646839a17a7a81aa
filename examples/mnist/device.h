/* SPDX-License-Identifier: Apache-2.0 */
/* What a network computes with, and how the ranks share what they learn: cpu.c does it by BLAS and
 * MPI, examples/mnist_nccl/gpu.cu by CUDA and NCCL; a program has one of them. Matrices are
 * row-major, one row per image, and lie on the device. Work may be done later than a call returns,
 * but in the order of the calls; device_step and device_score wait for it. Not thread-safe. A rank
 * that cannot go on says why and aborts the job.
 */
#ifndef MNIST_DEVICE_H
#define MNIST_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/mnist/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device;

/* A layer's parameters and their gradients. Weights are [outputs][inputs], in the first convolution
 * [inputs][outputs]. */
struct layer {
    int inputs, outputs;
    float *weights, *bias;
    float *weight_gradients, *bias_gradients;
};

/* Images of one pass, on the host: pixels[i] points at the IMAGE_PIXELS bytes of image i. */
struct batch {
    int count;
    const uint8_t *const *pixels;
    const uint8_t *labels;
};

/* What --help says of where it runs: whole lines, or nothing. */
extern const char device_help[];

/* Gets hold of what is computed on (collective over MPI_COMM_WORLD). Returns false on all ranks,
 * after one line on stderr, where a rank has no such thing. */
bool device_start(void);

/* Returns a device for passes of a model over at most `capacity` images (collective over
 * MPI_COMM_WORLD). Its memory stays until the process ends. */
struct device *device_new(const struct model *model, int capacity);
/* Waits for what was begun, and ends the communication. */
void device_end(struct device *device);

/* Returns zeros. */
float *device_floats(struct device *device, size_t count);
void device_zero(struct device *device, float *values, size_t count);
/* Copies values of the host. */
void device_upload(struct device *device, float *values, const float *host, size_t count);

/* Takes the images of a batch, which the next calls are about, into `images`. */
void device_load(struct device *device, const struct batch *batch, float *images);

/* Computes the POOL_SIZE features of each image by the two convolutions; and sets their gradients
 * from those of the features, which must be zero where the feature is. */
void device_convolve(struct device *device, const struct layer *layers, const float *images,
                     float *features);
void device_convolve_backward(struct device *device, const struct layer *layers,
                              const float *images, const float *feature_gradients);

/* results[images][outputs] = values[images][inputs] * weights^T + bias, or 0 where this is less and
 * `relu` is set. */
void device_dense(struct device *device, const struct layer *layer, const float *values, bool relu,
                  float *results);

/* Sets the layer's gradients from those of the results, and value_gradients unless it is NULL. */
void device_dense_backward(struct device *device, const struct layer *layer, const float *values,
                           const float *result_gradients, float *value_gradients);

/* Zeroes each value with a chance of drop_chance_256 / 256 and multiplies the others by the inverse
 * of their chance to stay. Row r takes its numbers from counter `offset` on of image
 * first_item + r. */
void device_drop(struct device *device, float *rows, int columns, unsigned drop_chance_256,
                 uint64_t stream, int first_item, int offset);

/* The gradient through a relu and a dropout after it: `values` is what came out of both. */
void device_relu_drop_backward(struct device *device, const float *values, float *gradients,
                               int columns, unsigned drop_chance_256);

/* Turns the outputs into their gradients times `scale`; device_score returns what they are worth.
 */
void device_judge(struct device *device, const struct batch *batch, float *outputs, float scale);
struct score device_score(struct device *device);

/* Gradient descent with momentum on the mean of the ranks' gradients (collective). Returns the
 * seconds that the sum over the ranks took. */
double device_step(struct device *device, const struct model *model, float *weights,
                   float *velocity, float *gradients, float learning_rate, float momentum);

#ifdef __cplusplus
}
#endif

#endif
