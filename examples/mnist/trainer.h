/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training: each rank computes the gradients of its part of each batch, one
 * all-reduce per parameter tensor sums them, and every rank makes the same step.
 */
#ifndef MNIST_TRAINER_H
#define MNIST_TRAINER_H

#include <stdbool.h>

#include "examples/mnist/images.h"
#include "examples/mnist/options.h"

/* Trains and reports as the options say (collective over MPI_COMM_WORLD). There may be no more
 * ranks than images in a batch. Returns false on all ranks, after rank 0 has said why, if the log
 * cannot be written; a rank without memory aborts the job. */
bool trainer_run(const struct options *options, const struct dataset *dataset);

#endif
