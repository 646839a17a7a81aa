/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the cases: values of several distributions, and arrays on the host with copies in the
 * machine's memory (machine.h), between margins of a known pattern. If there is no memory, the
 * program ends. */
#ifndef TESTS_NCCL_KERNELS_ARRAYS_H
#define TESTS_NCCL_KERNELS_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

/* MIXED: each lane's eight elements are random numbers times one power of two, which is the same in
 * every buffer; one of the eight may be a rare value. GRADED: up to 12 significant bits with
 * exponents in a wide range, so that some values are halfway between two codes of fp16 or a coarser
 * format, and some are subnormal in small formats. For casts only: LONE_NANS and LONE_LARGEST (the
 * largest finite bfloat16) have one such value in each eight elements. */
enum distribution {
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

/* Returns the next number of a fixed pseudorandom sequence. */
uint64_t next_random(void);
float value_of(enum distribution kind);
void fill(enum cshim_dtype dtype, enum distribution kind, void *buffer, size_t count);

/* Replaces one of 16 bytes, on average, by a random one. */
void damage(unsigned char *bytes, size_t count);

/* Allocates memory; never returns NULL; the caller frees it with free(). */
void *room_for(size_t bytes);

enum { PARTS_MAX = 32 };

/* An array on the host, which gets the expected contents, and its copy in the machine's memory. Of
 * a large array the host has only parts, stored one after the other. */
struct array {
    unsigned char *base; /* allocation in the machine's memory */
    unsigned char *host;
    unsigned char *device; /* beginning of the array in `base`, `shift` bytes off alignment */
    size_t bytes, shift;   /* bytes: size on the host */
    struct part {
        uint64_t at; /* offset in the machine's array */
        size_t bytes;
    } parts[PARTS_MAX];
    unsigned part_count;
};

struct array make_array(size_t bytes, size_t shift);
void drop_array(struct array *array);
/* Copies the host's bytes to the machine, and writes the pattern around each part. */
void give_array(const struct array *array);
/* Returns true if the machine has the host's bytes, and the pattern around them. */
bool is_as_expected(const struct array *array);

/* Large arrays, of 2^32 elements or more, on simulated machines only. The host has LARGE_EACH
 * elements from index 0, from 2^31 and, if they exist, from 2^32: those that the machine's first
 * blocks (machine.h) work on. */
enum { LARGE_EACH = 4096 };
/* Returns the number of elements that the host has of an array of `count`. */
uint64_t large_kept(uint64_t count);
struct array make_large_elements(size_t element, uint64_t count);
/* Makes an array of messages, `stride` bytes apart, each beginning with `header` bytes;
 * message i has elements[i] elements. */
struct array make_large_messages(enum cshim_codec_id codec, enum cshim_dtype dtype,
                                 const uint64_t *elements, unsigned messages, size_t header,
                                 uint64_t stride);

#endif
