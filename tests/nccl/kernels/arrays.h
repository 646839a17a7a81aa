/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases are made of: values of several kinds, and arrays of which the machine (machine.h)
 * has a copy between painted margins. Without memory the program ends.
 */
#ifndef TESTS_NCCL_KERNELS_ARRAYS_H
#define TESTS_NCCL_KERNELS_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

enum kind { NORMAL, ANY_BITS, SPARSE_RARE, ZEROS, HUGE_VALUES, TINY_VALUES, KINDS };

/* The next of a fixed sequence. */
uint64_t next_random(void);
float value_of(enum kind kind);
void fill(enum cshim_dtype dtype, enum kind kind, void *buffer, size_t count);

/* Never NULL; free with free(). */
void *room_for(size_t bytes);

/* An array of the host's, in which cases put what they expect, and the machine's. */
struct array {
    unsigned char *base; /* of the machine's memory ... */
    unsigned char *host;
    unsigned char *device; /* ... and where the array begins in it, `shift` bytes off alignment */
    size_t bytes, shift;
};

struct array make_array(size_t bytes, size_t shift);
void drop_array(struct array *array);
/* Gives the machine the host's bytes, and fresh paint around them. */
void give_array(const struct array *array);
/* Whether the machine has the host's bytes, and paint all round. */
bool is_as_expected(const struct array *array);

#endif
