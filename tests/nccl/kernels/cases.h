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

/* How a buffer is cut into messages. */
struct shape {
    uint64_t count, chunk;
    uint32_t pieces;
    size_t shift; /* of the caller's buffer, in elements */
    size_t gap;   /* elements between two pieces in it */
};

/* Those of a message. */
uint64_t elements_of(const struct shape *shape, uint32_t piece);

/* large_cases.c: encoding, decoding and adding so many elements, in pieces of `chunk`. */
void test_large(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t count, uint64_t chunk);

#endif
