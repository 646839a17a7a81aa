/* SPDX-License-Identifier: Apache-2.0 */
/* The two networks of model.h by BLAS: the convolutional one of the well-known PyTorch MNIST
 * example, and a small perceptron. Not thread-safe: a network has scratch of its own.
 */
#ifndef MNIST_NETWORK_H
#define MNIST_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "examples/mnist/model.h"

/* One parameter tensor. The network owns the memory. */
struct tensor {
    size_t count;
    float *weights;
    float *gradients;
    float *momentum;
};

struct network;

/* The sum of losses and the number of right answers of some images. */
struct score {
    double loss;
    double correct;
};

/* Returns a network with seeded initial weights for batches of at most `capacity` images, or NULL
 * if memory is short. Free it with network_free. */
struct network *network_new(enum network_model which, int capacity, uint64_t seed);
void network_free(struct network *network);

/* Returns the parameter tensors, in the order of the layers, and their number. */
struct tensor *network_tensors(struct network *network, int *count);

/* Images of one pass: pixels[i] points at the IMAGE_PIXELS bytes of image i. */
struct batch {
    int count;
    const uint8_t *const *pixels;
    const uint8_t *labels;
};

/* Classifies a batch without dropout. */
struct score network_evaluate(struct network *network, const struct batch *batch);

/* Forward and backward pass: sets the gradients of all tensors to `scale` times the sum over the
 * batch. Image i drops out what stream `dropout` says of item first_item + i, so that the same
 * image of a step drops the same units on whichever rank it lies. An empty batch sets zeros. */
struct score network_train(struct network *network, const struct batch *batch, float scale,
                           uint64_t dropout, int first_item);

#endif
