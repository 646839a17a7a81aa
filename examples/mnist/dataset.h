/* SPDX-License-Identifier: Apache-2.0 */
/* The images of a job: rank 0 finds, reads or draws them, and every rank gets a copy. */
#ifndef MNIST_DATASET_H
#define MNIST_DATASET_H

#include <stdbool.h>

#include "examples/mnist/images.h"

struct dataset {
    struct image_set training, test;
};

/* Fills the set on all ranks of MPI_COMM_WORLD (collective). `directory` is the user's, or NULL for
 * the usual places; `limit` cuts the training images, 0 takes all. Rank 0 prints where they come
 * from, or what is wrong with them; then all ranks return false. dataset_free when done. */
bool dataset_load(const char *directory, int limit, bool quiet, struct dataset *dataset);
void dataset_free(struct dataset *dataset);

#endif
