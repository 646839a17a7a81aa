/* SPDX-License-Identifier: Apache-2.0 */
/* The IDX files of the MNIST database, plain or gzipped.
 *
 * Format: two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, each dimension
 * as a big-endian 32-bit count, then the bytes, last dimension fastest.
 */
#ifndef MNIST_IDX_H
#define MNIST_IDX_H

#include <stdbool.h>
#include <stddef.h>

#include "examples/mnist/images.h"

/* Reads the images and labels of a set from two files. Nothing a file declares is believed before
 * it is read: memory grows with the bytes that arrive. Returns false and a one-line message (the
 * file, what is wrong with it and where) on any defect; the set is then empty and owns nothing. On
 * success the caller frees the two arrays. Thread-safe. */
bool idx_read_set(const char *image_path, const char *label_path, struct image_set *set,
                  char *error, size_t error_size);

#endif
