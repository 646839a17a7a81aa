/* SPDX-License-Identifier: Apache-2.0 */
/* A set of labelled images as the trainer holds it, whether read from files or generated. */
#ifndef MNIST_IMAGES_H
#define MNIST_IMAGES_H

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

#endif
