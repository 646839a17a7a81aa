/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the 16-bit scales of the integer formats in memory. */
#ifndef CSHIM_INTEGER_H
#define CSHIM_INTEGER_H

#include "codecs/simd.h"

static inline uint16_t cshim_load_scale(const uint8_t *scales, size_t block)
{
    return (uint16_t)(scales[2 * block] | scales[2 * block + 1] << 8);
}

static inline void cshim_store_scale(uint8_t *scales, size_t block, uint16_t scale)
{
    scales[2 * block] = (uint8_t)scale;
    scales[2 * block + 1] = (uint8_t)(scale >> 8);
}

/* Whether the SIMD loops may multiply by a scale and its reciprocal: values need no lifting. */
static inline bool cshim_scale_is_plain(uint16_t scale)
{
    return scale >= CSHIM_INTEGER_FIRST_ORDINARY && scale <= CSHIM_INTEGER_LAST_ORDINARY;
}

/* The float of a plain scale, or 0 for one that is left to the scalar loop. */
static inline float cshim_plain_scale(uint16_t scale)
{
    uint32_t bits = (uint32_t)(scale - CSHIM_INTEGER_SCALE_OFFSET) << 16;
    return cshim_scale_is_plain(scale) ? cshim_bits_float(bits) : 0.0f;
}

#endif
