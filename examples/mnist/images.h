/* SPDX-License-Identifier: Apache-2.0 */
/* Labelled images: read from the IDX files of the MNIST database (idx.c) or generated (digits.c),
 * and copied to every rank (dataset.c). */
#ifndef MNIST_IMAGES_H
#define MNIST_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_SIDE = 28, IMAGE_PIXELS = IMAGE_SIDE * IMAGE_SIDE, IMAGE_CLASSES = 10 };

/* Maximum number of images of a set: more than EMNIST has, and their bytes fit an int. */
enum { IMAGE_COUNT_LIMIT = 2000000 };

/* Owns both arrays (malloc). */
struct image_set {
    int count;
    uint8_t *pixels; /* count * IMAGE_PIXELS bytes, row by row; 0: background */
    uint8_t *labels; /* count labels, each less than IMAGE_CLASSES */
};

struct dataset {
    struct image_set training, test;
};

/* Reads images and labels from two IDX files, plain or gzipped. Does not trust a file's header:
 * memory grows with the bytes that arrive. On error returns false, with a one-line message (the
 * file, what is wrong and where); the set is then empty. On success the caller frees the two
 * arrays. Thread-safe. */
bool idx_read_set(const char *image_path, const char *label_path, struct image_set *set,
                  char *error, size_t error_size);

/* Generates images `first` to `first + count - 1` of an endless sequence, the same in every run:
 * strokes with random shift, scale, slant, rotation, thickness and noise. Returns false if there is
 * no memory; the caller frees the two arrays. Thread-safe. */
bool digits_draw(int first, int count, struct image_set *set);

/* Loads the set on all ranks of MPI_COMM_WORLD (collective). `directory` is the user's,
 * "generated", or NULL for the default ones; if these have no images, they are generated. `limit`
 * limits the training images; 0: all. Rank 0 prints where they come from; with `quiet`, only that
 * they are generated. If rank 0 cannot load them, it prints an error, and all ranks return false. A
 * rank without memory for its copy aborts the job. The memory is never freed. */
bool dataset_load(const char *directory, int limit, bool quiet, struct dataset *dataset);

#endif
