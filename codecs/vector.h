/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: what the loops with AVX2 and AVX-512 have in common but for the
 * instructions: which formats they know, scales, tables for codes of a width that is not whole
 * bytes. All of it is constant where the format is.
 */
#ifndef CSHIM_VECTOR_H
#define CSHIM_VECTOR_H

#include <immintrin.h>

#include "codecs/portable.h"

/* From this magnitude on a float rounds up to infinity in bf16, or is not finite. */
#define CSHIM_BF16_EXCEPTIONAL 0x7f7f8000u

/* How far ahead of the loops, in floats, memory is asked for: the hardware's own prefetching stops
 * at the end of each page. */
#define CSHIM_PREFETCH_FLOATS 2048

/* Formats that the vector code knows: integers, and floats that turn into binary16 by a shift. */
CSHIM_INLINE bool has_blocks(struct cshim_format format)
{
    bool is_half = format.bits == 16 && format.mantissa_bits == 10 && format.has_infinity;
    bool is_byte = format.bits == 8 && (format.mantissa_bits == 2) == format.has_infinity &&
                   format.mantissa_bits >= 2;
    return format.family == CSHIM_FAMILY_INTEGER ||
           (format.family == CSHIM_FAMILY_FLOAT && (is_half || is_byte));
}

/* What the exponent of a small float's code is raised by when its bits are taken for a binary16. */
CSHIM_INLINE int half_shift(struct cshim_format format)
{
    return 14 + format.min_exponent;
}

/* Whether a block's scale is one that the vector code multiplies by: it and its reciprocal are
 * normal floats, and the top code times it is finite. */
CSHIM_INLINE bool is_plain(struct cshim_format format, uint32_t stored)
{
    if (format.family == CSHIM_FAMILY_INTEGER) {
        return stored >= CSHIM_INTEGER_FIRST_ORDINARY && stored <= CSHIM_INTEGER_LAST_ORDINARY;
    }
    int exponent = (int)stored + format.min_scale;
    int top = format.max_exponent > half_shift(format) ? format.max_exponent : half_shift(format);
    return exponent >= -126 && exponent + top <= 127;
}

/* What decoding multiplies the codes of a block with such a scale by. */
CSHIM_INLINE float decoding_factor(struct cshim_format format, uint32_t stored)
{
    return format.family == CSHIM_FAMILY_INTEGER
               ? cshim_bits_float((stored - CSHIM_INTEGER_SCALE_OFFSET) << 16)
               : cshim_power_of_two((int)stored + format.min_scale + half_shift(format));
}

/* ... and what encoding multiplies its elements by. */
CSHIM_INLINE float encoding_factor(struct cshim_format format, uint32_t stored)
{
    return format.family == CSHIM_FAMILY_INTEGER
               ? 1.0f / decoding_factor(format, stored)
               : cshim_power_of_two(-((int)stored + format.min_scale));
}

/* Arrays of at least this many elements are written past the caches, which would not keep them
 * anyway: that spares the memory reading each line before it is overwritten. Pipelines work on
 * smaller pieces, which do stay in the cache. */
CSHIM_INLINE bool goes_past_cache(const void *output, size_t count)
{
    return count >= (size_t)1 << 22 && (uintptr_t)output % 32 == 0;
}

/* Stores past the cache are ordered with later ones only by a fence. */
CSHIM_INLINE void end_past_cache(bool past_cache)
{
    if (past_cache) {
        _mm_sfence();
    }
}

/* The codes are joined until those of eight elements, `bits` bytes, are the lower bytes of 8. Then
 * the bytes of 16 elements move together: the shuffle for 4 * i to 4 * i + 3; 0x80 gives a zero. */
CSHIM_INLINE int joined_bytes(int bits, int i)
{
    uint32_t shuffle = 0;
    for (int at = 4 * i; at < 4 * i + 4; at++) {
        uint32_t from = at < bits ? at : at < 2 * bits ? 8 + at - bits : 0x80;
        shuffle |= from << at % 4 * 8;
    }
    return (int)shuffle;
}

/* ... and those of 64 elements: where words 2 * i and 2 * i + 1, 16 bits each, come from. */
CSHIM_INLINE int joined_words(int bits, int i)
{
    const int first = 2 * i, second = 2 * i + 1;
    return (first / bits * 8 + first % bits) | (second / bits * 8 + second % bits) << 16;
}

/* To take codes apart, the two bytes in which code number i lies become the lower bytes of a 32-bit
 * lane; the shuffle for that lane. */
CSHIM_INLINE int window(int bits, int i)
{
    return (int)(0x80800100u + 0x0101u * (unsigned)(i * bits / 8));
}

/* ... and how far the lane is shifted to the left for the code to begin with the highest bit. */
CSHIM_INLINE int lift(int bits, int i)
{
    return 32 - bits - i * bits % 8;
}

#endif
