/* SPDX-License-Identifier: Apache-2.0 */
/* This rank's copy of a network of model.h (the convolutional one of PyTorch's MNIST example, or a
 * small perceptron), on the program's device. Not thread-safe. */
#ifndef MNIST_NETWORK_H
#define MNIST_NETWORK_H

#include "examples/mnist/device.h"

struct network;

/* Returns a network with initial weights drawn from the seed, equal on all ranks of MPI_COMM_WORLD
 * (collective), for batches of at most `capacity` images of this rank. */
struct network *network_new(enum network_model which, int capacity, uint64_t seed);
/* Ends the device's work. The memory is never freed. */
void network_end(struct network *network);

/* Makes one training step (collective): forward and backward pass over a batch, which may be empty,
 * then gradient descent with momentum on the mean of the ranks' gradients, each `scale` times the
 * sum over the batch. Dropout of image i uses item first_item + i of the stream `dropout`, so that
 * it does not depend on the rank that has the image. Returns this rank's score, and adds the
 * seconds of the all-reduce. */
struct score network_step(struct network *network, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum,
                          double *allreduce_seconds);

/* Classifies a batch, without dropout. */
struct score network_evaluate(struct network *network, const struct batch *batch);

#endif
