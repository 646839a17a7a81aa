/* SPDX-License-Identifier: Apache-2.0 */
/* What learns: this rank's copy of a network of model.h, the convolutional one of the well-known
 * PyTorch MNIST example or a small perceptron, on the program's device. Not thread-safe.
 */
#ifndef MNIST_NETWORK_H
#define MNIST_NETWORK_H

#include "examples/mnist/device.h"

struct network;

/* Returns a network with initial weights drawn from the seed, which are the same on all ranks of
 * MPI_COMM_WORLD (collective), for batches of at most `capacity` images of this rank. */
struct network *network_new(enum network_model which, int capacity, uint64_t seed);
/* Ends what the network has begun on its device. Its memory stays until the process ends. */
void network_end(struct network *network);

/* One step (collective): forward and backward pass over a batch, which may be empty, then gradient
 * descent with momentum on the mean of the ranks' gradients, each `scale` times the sum over the
 * batch. Image i drops out what stream `dropout` says of item first_item + i, so that the same
 * image of a step drops the same units on whichever rank it lies. Returns this rank's score, and
 * adds the seconds that the sum over the ranks took. */
struct score network_step(struct network *network, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum,
                          double *allreduce_seconds);

/* Classifies a batch without dropout. */
struct score network_evaluate(struct network *network, const struct batch *batch);

#endif
