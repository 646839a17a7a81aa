/* SPDX-License-Identifier: Apache-2.0 */
/* Images of the ten digits, drawn: what the trainer learns from where there is no MNIST. */
#ifndef MNIST_DIGITS_H
#define MNIST_DIGITS_H

#include <stdbool.h>

#include "examples/mnist/images.h"

/* Draws images number `first` to `first + count - 1` of the endless sequence that every machine
 * draws alike: strokes with random shift, scale, slant, turn, thickness and noise. Returns false if
 * memory is short; the caller frees the two arrays. Thread-safe. */
bool digits_draw(int first, int count, struct image_set *set);

#endif
