/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the cases of the kernels. */
#ifndef KERNELS_CASES_H
#define KERNELS_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "kernels/kernels.h"
#include "tests/nccl/kernels/arrays.h"

enum { HEADER = 4 * CSHIM_KERNEL_HEADER_WORDS };

/* Counts a check, and prints it if it is one of the first that failed. */
void judge(bool good, const char *what, enum cshim_codec_id codec, enum cshim_dtype dtype,
           uint64_t count, unsigned detail);

/* Header of all messages without the number of elements; put_header() writes both. */
extern const uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
void put_header(unsigned char *message, uint64_t elements);
/* Flips a bit of one of a header's words that kernels compare, but not of the number of elements.
 */
void damage_header(void *words);

/* Division of a buffer into messages. */
struct shape {
    uint64_t count, chunk;
    uint32_t pieces;
    size_t shift; /* offset of the caller's buffer from alignment, in elements */
    size_t gap;   /* elements between two pieces in the buffer */
};

/* Return the number of elements of a message, and the bytes from message to message. */
uint64_t elements_of(const struct shape *shape, uint32_t piece);
size_t stride_of(enum cshim_codec_id codec, enum cshim_dtype dtype, const struct shape *shape);

/* sum_cases.c: adds contributions of fewer than RANKS_MAX ranks. Options: bit 0 a residual, bit 1
 * stochastic rounding, bit 2 a factor, bit 3 no output of the sum, bit 4 no encoded sum, bit 5
 * damaged contributions. */
enum { RANKS_MAX = 9 };
void test_reduce(enum cshim_codec_id codec, enum cshim_dtype dtype, enum distribution kind,
                 uint64_t count, unsigned ranks, unsigned options);

/* cast_cases.c: the three kernels of cast. Factors: on input and output (BOTH), on the input and in
 * memory (IN_MEMORY), or on the output and little more than 1 (LITTLE). The machine's buffer has
 * `all` elements, of which the host may have fewer. */
enum factors { NONE, BOTH, IN_MEMORY, LITTLE };
void test_cast(enum cshim_codec_id codec, enum cshim_dtype dtype, enum distribution kind,
               uint64_t all, size_t shift, enum factors factors);
/* Checks the kernel that finds the largest magnitude, with that magnitude at each index modulo 16,
 * so at each of the eight elements that a lane loads; with and without a factor, and with and
 * without a NaN among the elements. */
void test_places(enum cshim_dtype dtype);

/* large_cases.c: encodes and decodes `count` elements in pieces of `chunk`, and adds whole
 * contributions. */
void test_large(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t count, uint64_t chunk);

#endif
