/* SPDX-License-Identifier: Apache-2.0 */
/* The labelled images that the trainer learns from: read from the IDX files of the MNIST database
 * (idx.c), or drawn where there are none (digits.c); and every rank gets a copy (dataset.c). */
#ifndef MNIST_IMAGES_H
#define MNIST_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_SIDE = 28, IMAGE_PIXELS = IMAGE_SIDE * IMAGE_SIDE, IMAGE_CLASSES = 10 };

/* Enough for any published set of this kind, and small enough that its bytes fit an int. */
enum { IMAGE_COUNT_LIMIT = 2000000 };

/* Owns both arrays (malloc). */
struct image_set {
    int count;
    uint8_t *pixels; /* count * IMAGE_PIXELS, row by row, 0 is the background */
    uint8_t *labels; /* count, each less than IMAGE_CLASSES */
};

struct dataset {
    struct image_set training, test;
};

/* Reads the images and labels of a set from two IDX files, plain or gzipped. Nothing a file
 * declares is believed before it is read: memory grows with the bytes that arrive. Returns false
 * and a one-line message (the file, what is wrong with it and where) on any defect; the set is then
 * empty and owns nothing. On success the caller frees the two arrays. Thread-safe. */
bool idx_read_set(const char *image_path, const char *label_path, struct image_set *set,
                  char *error, size_t error_size);

/* Draws images number `first` to `first + count - 1` of the endless sequence that every machine
 * draws alike: strokes with random shift, scale, slant, turn, thickness and noise. Returns false if
 * memory is short; the caller frees the two arrays. Thread-safe. */
bool digits_draw(int first, int count, struct image_set *set);

/* Fills the set on all ranks of MPI_COMM_WORLD (collective). `directory` is the user's, or NULL for
 * the usual places; `limit` cuts the training images, 0 takes all. Rank 0 prints where they come
 * from, or what is wrong with them; then all ranks return false. The memory stays. */
bool dataset_load(const char *directory, int limit, bool quiet, struct dataset *dataset);

#endif
