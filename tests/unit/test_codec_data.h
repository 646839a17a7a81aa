/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the codec tests: cmocka, the codecs of fixed size that round float32, and blocks of
 * difficult numbers. */
#ifndef TEST_CODEC_DATA_H
#define TEST_CODEC_DATA_H

#include <float.h>
#include <math.h>

#include "codecs/codec.h"
#include "tests/unit/unit.h"

static const enum cshim_codec_id scaled_codecs[] = {
    CSHIM_CODEC_BF16,
#define FLOAT(ID, NAME, ...) CSHIM_CODEC_##NAME,
#define INTEGER(ID, NAME, ...) CSHIM_CODEC_##NAME,
#include "codecs/formats.def"
};
enum { SCALED_CODECS = COUNT_OF(scaled_codecs) };

/* Returns true for codecs of integers times a scale. */
static inline bool is_integer(enum cshim_codec_id id)
{
    return cshim_codec_info(id)->scale_bytes == 2;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the next number of splitmix64: a fixed sequence for each seed. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a roughly normal number with standard deviation 1: the sum of twelve uniform numbers,
 * minus six. */
static inline float next_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(next_random(state) >> 11) * 0x1p-53;
    return (float)sum;
}

enum pattern {
    PATTERN_NORMAL,
    PATTERN_ANY_BITS,
    PATTERN_ANY_FINITE,
    PATTERN_ZERO,
    PATTERN_MINUS_ZERO,
    PATTERN_SUBNORMAL,
    PATTERN_TINY,
    PATTERN_HUGE,
    PATTERN_LARGEST,
    PATTERN_SPIKE,
    PATTERN_ONE_INFINITY,
    PATTERN_ONE_NAN,
    PATTERN_NEAR_SCALE_ENDS,
    PATTERN_MIXED,
    PATTERN_COUNT
};

static inline float pattern_value(enum pattern pattern, size_t i, uint64_t *state)
{
    float normal = next_normal(state);
    uint32_t bits = (uint32_t)next_random(state);
    switch (pattern) {
    case PATTERN_ANY_BITS:
        return float_of(bits);
    case PATTERN_ANY_FINITE:
        return isfinite(float_of(bits)) ? float_of(bits) : normal;
    case PATTERN_ZERO:
        return 0.0f;
    case PATTERN_MINUS_ZERO:
        return -0.0f;
    case PATTERN_SUBNORMAL:
        return float_of(bits & 0x807fffffu);
    case PATTERN_TINY:
        return normal * 1e-38f;
    case PATTERN_HUGE:
        return normal * 5e37f;
    case PATTERN_LARGEST:
        return i % 3 == 0 ? FLT_MAX : i % 3 == 1 ? -FLT_MAX : normal * 1e38f;
    case PATTERN_SPIKE:
        return i % 97 == 13 ? normal * 1e30f : normal;
    case PATTERN_ONE_INFINITY:
        return i % 151 == 7 ? copysignf(INFINITY, normal) : normal;
    case PATTERN_ONE_NAN:
        return i % 151 == 7 ? float_of(bits | 0x7f800001u) : normal;
    case PATTERN_NEAR_SCALE_ENDS:
        return ldexpf(normal, (int)(i / 64 % 2 == 0 ? i / 64 % 40 : 240 - i / 64 % 40) - 130);
    case PATTERN_MIXED:
        return pattern_value((enum pattern)(i / 64 % PATTERN_MIXED), i, state);
    default:
        return normal;
    }
}

static inline void fill(enum pattern pattern, uint64_t seed, float *values, size_t count)
{
    uint64_t state = seed * 1000 + (uint64_t)pattern;
    for (size_t i = 0; i < count; i++)
        values[i] = pattern_value(pattern, i, &state);
}

/* Allocates memory, or fails the test. */
static inline void *allocate(size_t bytes)
{
    void *memory = malloc(bytes != 0 ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

#endif
