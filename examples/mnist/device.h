/* SPDX-License-Identifier: Apache-2.0 */
/* The device on which a network computes, and how ranks sum their gradients: cpu.c uses BLAS and
 * MPI, examples/mnist_nccl/gpu.cu uses CUDA and NCCL. A program is linked to one of them.
 *
 * Matrices are row-major, one row per image, in device memory. Calls may return before their work
 * is done, but the work is done in their order; device_step() and device_score() wait for it. Not
 * thread-safe. A rank that cannot continue prints why and aborts the job. */
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

/* Images of one pass, on the host: pixels[i] points to the IMAGE_PIXELS bytes of image i. */
struct batch {
    int count;
    const uint8_t *const *pixels;
    const uint8_t *labels;
};

/* Text of --help about the device: whole lines, or empty. */
extern const char device_help[];

/* Finds the hardware (collective over MPI_COMM_WORLD). If a rank has none, prints a line to stderr
 * and returns false on all ranks. */
bool device_start(void);

/* Returns a device for passes of a model over at most `capacity` images (collective over
 * MPI_COMM_WORLD). Its memory is never freed. */
struct device *device_new(const struct model *model, int capacity);
/* Waits for pending work, and ends the communication. */
void device_end(struct device *device);

/* Allocates floats on the device, set to zero. */
float *device_floats(struct device *device, size_t count);
void device_zero(struct device *device, float *values, size_t count);
/* Copies values from the host. */
void device_upload(struct device *device, float *values, const float *host, size_t count);

/* Begins a pass over a batch: copies its images, as inputs of the network, into `images`. */
void device_load(struct device *device, const struct batch *batch, float *images);

/* device_convolve computes the POOL_SIZE features of each image by the two convolutions.
 * device_convolve_backward sets the gradients of the convolutions from those of the features, which
 * must be zero where the feature is zero. */
void device_convolve(struct device *device, const struct layer *layers, const float *images,
                     float *features);
void device_convolve_backward(struct device *device, const struct layer *layers,
                              const float *images, const float *feature_gradients);

/* results[images][outputs] = values[images][inputs] * weights^T + bias; negative results become 0
 * if `relu` is set. */
void device_dense(struct device *device, const struct layer *layer, const float *values, bool relu,
                  float *results);

/* Sets the layer's gradients from those of the results, and value_gradients unless it is NULL. */
void device_dense_backward(struct device *device, const struct layer *layer, const float *values,
                           const float *result_gradients, float *value_gradients);

/* Sets each value to zero with a probability of drop_chance_256 / 256, and divides the others by
 * the probability to stay. Row r uses the random numbers of image first_item + r, from counter
 * `offset` on. */
void device_drop(struct device *device, float *rows, int columns, unsigned drop_chance_256,
                 uint64_t stream, int first_item, int offset);

/* Multiplies gradients by the derivative of a ReLU followed by a dropout; `values` is their result.
 */
void device_relu_drop_backward(struct device *device, const float *values, float *gradients,
                               int columns, unsigned drop_chance_256);

/* Replaces the outputs by their gradients times `scale`; device_score() returns the score. */
void device_judge(struct device *device, const struct batch *batch, float *outputs, float scale);
struct score device_score(struct device *device);

/* Makes a step of gradient descent with momentum on the mean of the ranks' gradients (collective).
 * Returns the seconds of the all-reduce. */
double device_step(struct device *device, const struct model *model, float *weights,
                   float *velocity, float *gradients, float learning_rate, float momentum);

#ifdef __cplusplus
}
#endif

#endif
