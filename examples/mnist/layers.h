/* SPDX-License-Identifier: Apache-2.0 */
/* The layers both networks share. Matrices are row-major, one row per image. Reentrant. */
#ifndef MNIST_LAYERS_H
#define MNIST_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* A dense layer: weights [outputs][inputs] and a bias per output; or the gradients of one. */
struct dense {
    int inputs, outputs;
    float *weights, *bias;
};

/* results[rows][outputs] = values[rows][inputs] * weights^T + bias */
void dense_forward(const struct dense *layer, int rows, const float *values, float *results);

/* Sets `gradients` from the gradient of the results, and value_gradient unless it is NULL. */
void dense_backward(const struct dense *layer, const struct dense *gradients, int rows,
                    const float *values, const float *result_gradient, float *value_gradient);

void relu(float *values, size_t count);

/* Zeroes each value with a chance of drop_chance_256 / 256 and multiplies the others by the inverse
 * of their chance to stay. Counters from first_counter on, one for 8 values, belong to this call.
 */
void dropout(float *values, size_t count, unsigned drop_chance_256, uint64_t stream,
             uint64_t first_counter);

/* The gradient through a relu and a dropout after it: `values` is what came out of both. */
void relu_dropout_backward(const float *values, float *gradient, size_t count,
                           unsigned drop_chance_256);

#endif
