/* SPDX-License-Identifier: Apache-2.0 */
/* The convolutional part of the network, one image at a time: convolution 1 -> 32 (3x3), relu,
 * convolution 32 -> 64 (3x3), relu, max pooling 2x2. Maps are stored channel last, so that the
 * three neighbours under a row of the kernel lie side by side.
 */
#ifndef MNIST_CONV_H
#define MNIST_CONV_H

#include <stdint.h>

#include "examples/mnist/images.h"

enum {
    CONV_KERNEL = 3,
    CONV_TAPS = CONV_KERNEL * CONV_KERNEL,
    CONV1_SIDE = IMAGE_SIDE - 2,
    CONV1_CHANNELS = 32,
    CONV1_SIZE = CONV1_SIDE * CONV1_SIDE * CONV1_CHANNELS,
    CONV2_SIDE = CONV1_SIDE - 2,
    CONV2_CHANNELS = 64,
    CONV2_SIZE = CONV2_SIDE * CONV2_SIDE * CONV2_CHANNELS,
    CONV2_ROW = CONV_KERNEL * CONV1_CHANNELS, /* inputs under one row of the kernel */
    CONV2_PATCH = CONV_KERNEL * CONV2_ROW,    /* inputs of one output */
    POOL_SIDE = CONV2_SIDE / 2,
    POOL_SIZE = POOL_SIDE * POOL_SIDE * CONV2_CHANNELS
};

/* What the backward pass needs of one image's forward pass. */
struct conv_trace {
    float map1[CONV1_SIZE]; /* after the relu */
    uint8_t
        winner[POOL_SIZE]; /* which of its four inputs each maximum came from: 2 * row + column */
};

/* Room for intermediate maps of one image. */
struct conv_scratch {
    float patches[CONV2_SIDE * CONV2_SIDE * CONV2_PATCH];
    float map2[CONV2_SIZE];
    float map1_gradient[CONV1_SIZE];
};

struct layer;

/* Computes the POOL_SIZE features of an image of IMAGE_PIXELS floats by the two layers; their
 * weights are [CONV_TAPS][CONV1_CHANNELS] and [CONV2_CHANNELS][CONV2_PATCH]. */
void conv_forward(const struct layer *layers, const float *image, struct conv_trace *trace,
                  struct conv_scratch *scratch, float *features);

/* Adds one image's share to the layers' gradients, from the gradient of its features, which must be
 * zero where the feature is. */
void conv_backward(const struct layer *layers, const float *image, const struct conv_trace *trace,
                   const float *feature_gradient, struct conv_scratch *scratch);

#endif
