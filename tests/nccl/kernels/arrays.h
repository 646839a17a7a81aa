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

/* MIXED: each lane's eight have a magnitude of their own, the same in every buffer, and maybe one
 * rare value anywhere. GRADED: up to 12 bits at any place, so that some are halfway between two
 * codes of whatever format, and some are subnormal in small formats. For casts only: LONE_NANS,
 * and LONE_LARGEST, the largest finite bfloat16, one of each eight elements. */
enum kind {
    NORMAL,
    ANY_BITS,
    SPARSE_RARE,
    MIXED,
    GRADED,
    ZEROS,
    HUGE_VALUES,
    TINY_VALUES,
    KINDS,
    LONE_NANS,
    LONE_LARGEST
};

/* The next of a fixed sequence. */
uint64_t next_random(void);
float value_of(enum kind kind);
void fill(enum cshim_dtype dtype, enum kind kind, void *buffer, size_t count);

/* Puts random bytes in the place of one of 16, on average. */
void damage(unsigned char *bytes, size_t count);

/* Never NULL; free with free(). */
void *room_for(size_t bytes);

enum { PARTS_MAX = 32 };

/* An array of the host's, in which cases put what they expect, and the machine's. Of a large one
 * the host has parts, one behind the other. */
struct array {
    unsigned char *base; /* of the machine's memory ... */
    unsigned char *host;
    unsigned char *device; /* ... and where the array begins in it, `shift` bytes off alignment */
    size_t bytes, shift;   /* bytes: of the host's */
    struct part {
        uint64_t at; /* in the machine's array */
        size_t bytes;
    } parts[PARTS_MAX];
    unsigned part_count;
};

struct array make_array(size_t bytes, size_t shift);
void drop_array(struct array *array);
/* Gives the machine the host's bytes, and fresh paint around each part. */
void give_array(const struct array *array);
/* Whether the machine has the host's bytes, and paint all round. */
bool is_as_expected(const struct array *array);

/* Large arrays, of machines that are simulated: of 2^32 elements and some, of which the host has
 * the LARGE_EACH from 0 on, from 2^31 and, if there are as many, from 2^32: those of the machine's
 * first blocks (machine.h). */
enum { LARGE_EACH = 4096 };
/* How many elements of so many the host has. */
uint64_t large_kept(uint64_t count);
struct array make_large_elements(size_t element, uint64_t count);
/* Messages, each `stride` bytes behind the one before, that begin with `header` bytes; message i
 * has elements[i] elements. */
struct array make_large_messages(enum cshim_codec_id codec, enum cshim_dtype dtype,
                                 const uint64_t *elements, unsigned messages, size_t header,
                                 uint64_t stride);

#endif
