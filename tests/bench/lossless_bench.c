/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the codec lossless on files of floats, on one core.
 *
 *   lossless_bench float32|float64|float16|bfloat16 FILE...
 *
 * Prints a line for each FILE: its bytes, the compression ratio, the ratio that would be possible
 * if sign and mantissa stay as they are and exponents take their entropy, and the GB/s (10^9 bytes
 * of the file) of packing and unpacking, as medians of REPEATS. The unpacked data is compared with
 * the file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "shim/core/clock.h"
#include "tests/bench/times.h"

enum { REPEATS = 21, EXPONENTS = 1 << 11 };

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "lossless_bench: %s: %s\n", what, name);
    exit(3);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        fail("no memory", "for a file and what it becomes");
    return memory;
}

/* Reads the whole elements of a file into new memory. Returns their size in bytes. */
static size_t read_file(const char *name, size_t element, unsigned char **bytes)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail("cannot read", name);
    const size_t size = (size_t)ftell(file) / element * element;
    rewind(file);
    *bytes = allocate(size + 1);
    if (size == 0 || fread(*bytes, 1, size, file) != size)
        fail("it has no elements, or cannot be read", name);
    fclose(file);
    return size;
}

/* Returns the number of exponent bits. */
static unsigned exponent_bits(enum cshim_dtype dtype)
{
    return dtype == CSHIM_FLOAT64 ? 11 : dtype == CSHIM_FLOAT16 ? 5 : 8;
}

/* Returns the bits per element if sign and mantissa stay as they are, and exponents take their
 * entropy. */
static double least_bits(enum cshim_dtype dtype, const unsigned char *bytes, size_t count)
{
    static size_t seen[EXPONENTS];
    const size_t element = cshim_dtype_bytes(dtype);
    const unsigned width = exponent_bits(dtype), shift = 8 * (unsigned)element - 1 - width;
    double bits = 8.0 * (double)element - width;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, bytes + i * element, element);
        seen[value >> shift & ((1u << width) - 1)]++;
    }
    for (size_t i = 0; i < EXPONENTS; i++) {
        const double share = (double)seen[i] / (double)count;
        bits -= seen[i] > 0 ? share * log2(share) : 0;
    }
    return bits;
}

static double speed(size_t bytes, double seconds[REPEATS])
{
    return 1e-9 * (double)bytes / median_of(seconds, REPEATS);
}

static void measure(enum cshim_dtype dtype, const char *name)
{
    unsigned char *bytes;
    double packing[REPEATS], unpacking[REPEATS];
    const size_t size = read_file(name, cshim_dtype_bytes(dtype), &bytes);
    const size_t count = size / cshim_dtype_bytes(dtype);
    unsigned char *packed = allocate(cshim_encoded_bytes(CSHIM_CODEC_LOSSLESS, dtype, count));
    unsigned char *output = allocate(size);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double began = cshim_seconds();
        cshim_encode(CSHIM_CODEC_LOSSLESS, dtype, bytes, count, packed);
        const double packed_at = cshim_seconds();
        cshim_decode(CSHIM_CODEC_LOSSLESS, dtype, packed, count, output);
        unpacking[repeat] = cshim_seconds() - packed_at;
        packing[repeat] = packed_at - began;
    }
    if (memcmp(bytes, output, size) != 0)
        fail("unpacking gave other bytes", name);
    const size_t length = cshim_encoded_length(CSHIM_CODEC_LOSSLESS, dtype, count, packed);
    printf("%s %zu %.3f %.3f %.2f %.2f\n", name, size, (double)size / (double)length,
           8.0 * (double)cshim_dtype_bytes(dtype) / least_bits(dtype, bytes, count),
           speed(size, packing), speed(size, unpacking));
    free(bytes);
    free(packed);
    free(output);
}

int main(int argc, char **argv)
{
    int dtype = 0;
    while (argc > 1 && dtype < CSHIM_DTYPE_COUNT &&
           strcmp(argv[1], cshim_dtype_name((enum cshim_dtype)dtype)) != 0)
        dtype++;
    if (argc < 3 || dtype == CSHIM_DTYPE_COUNT) {
        fprintf(stderr, "usage: lossless_bench float32|float64|float16|bfloat16 FILE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        measure((enum cshim_dtype)dtype, argv[i]);
    return 0;
}
