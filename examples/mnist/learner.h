/* SPDX-License-Identifier: Apache-2.0 */
/* What learns: this rank's copy of the network, the sum of the ranks' gradients, the step.
 * learner.c does it by BLAS and MPI, examples/mnist_nccl/learner.c by CUDA and NCCL; a program has
 * one of them. Not thread-safe. A rank that cannot go on says why and aborts the job.
 */
#ifndef MNIST_LEARNER_H
#define MNIST_LEARNER_H

#include <stdbool.h>
#include <stddef.h>

#include "examples/mnist/network.h"

struct learner;

/* What --help says of where it runs: whole lines, or nothing. */
extern const char learner_help[];

/* Gets hold of what the learner computes on (collective over MPI_COMM_WORLD). Returns false on all
 * ranks, after one line on stderr, where a rank has no such thing. */
bool learner_start(void);

/* Returns a learner with seeded initial weights, equal on all ranks of MPI_COMM_WORLD (collective),
 * for at most `capacity` images of this rank in one pass; NULL if memory is short. */
struct learner *learner_new(enum network_model model, int capacity, uint64_t seed);
void learner_free(struct learner *learner);

/* One step (collective): as network_train, then gradient descent with momentum on the mean of the
 * ranks' gradients. Returns this rank's score. */
struct score learner_step(struct learner *learner, const struct batch *batch, float scale,
                          uint64_t dropout, int first_item, float learning_rate, float momentum);

/* Classifies a batch without dropout. */
struct score learner_evaluate(struct learner *learner, const struct batch *batch);

/* Seconds that this rank spent on sums over the ranks so far. */
double learner_allreduce_seconds(const struct learner *learner);

#endif
