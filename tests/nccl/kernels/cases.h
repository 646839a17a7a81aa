/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of kernels' cases share. */
#ifndef KERNELS_CASES_H
#define KERNELS_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "kernels/kernels.h"
#include "tests/nccl/kernels/arrays.h"

enum { HEADER = 4 * CSHIM_KERNEL_HEADER_WORDS };

/* Counts a check, and prints one that failed. */
void judge(bool good, const char *what, enum cshim_codec_id codec, enum cshim_dtype dtype,
           uint64_t count, unsigned detail);

/* The header of all messages, but for the number of elements; and writes it, with that. */
extern const uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
void put_header(unsigned char *message, uint64_t elements);
/* Changes a bit of a word that is compared, but not of the number of elements. */
void damage_header(void *words);

/* How a buffer is cut into messages. */
struct shape {
    uint64_t count, chunk;
    uint32_t pieces;
    size_t shift; /* of the caller's buffer, in elements */
    size_t gap;   /* elements between two pieces in it */
};

/* Those of a message, and the bytes between two messages. */
uint64_t elements_of(const struct shape *shape, uint32_t piece);
size_t stride_of(enum cshim_codec_id codec, enum cshim_dtype dtype, const struct shape *shape);

/* sum_cases.c: adding parts of fewer than RANKS_MAX ranks. Of the options bit 0 is a residual, bit
 * 1 random rounding, bit 2 a factor, bit 3 that the sum is not an output, bit 4 that it is not
 * encoded, bit 5 that the parts are damaged. */
enum { RANKS_MAX = 9 };
void test_reduce(enum cshim_codec_id codec, enum cshim_dtype dtype, enum kind kind, uint64_t count,
                 unsigned ranks, unsigned options);

/* cast_cases.c: the three kernels of a cast. It multiplies its input and its output, its input by a
 * factor in memory, or its output by a little more than 1. In the machine the buffer has `all`
 * elements, of which the host may have fewer. */
enum factors { NONE, BOTH, IN_MEMORY, LITTLE };
void test_cast(enum cshim_codec_id codec, enum cshim_dtype dtype, enum kind kind, uint64_t all,
               size_t shift, enum factors factors);
/* Whichever of the elements that a lane loads at once has the largest magnitude, with and without a
 * factor, for which there are loops of their own, and with and without a NaN beside it. */
void test_places(enum cshim_dtype dtype);

/* large_cases.c: encoding, decoding and adding so many elements, in pieces of `chunk`. */
void test_large(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t count, uint64_t chunk);

#endif
