/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic rounding for every format: a value becomes one of the two codes around it, at random
 * so that the mean is the value.
 *
 * The loops are written once, over the conversions of scalar.h, and compiled for each format and
 * SIMD level: `id` is a constant wherever it is used, and the compiler makes vector code of the
 * loops over blocks without non-finite elements.
 */
#include "codecs/integer.h"

#define INLINE static inline __attribute__((always_inline))

/* What a block's elements are encoded with; formats use one or the other. */
struct scale {
    int exponent;
    struct cshim_integer_scaling integer;
};

INLINE size_t block_of(enum cshim_codec_id id)
{
    switch (id) {
    case CSHIM_CODEC_FP16:
        return CSHIM_FP16_BLOCK;
    case CSHIM_CODEC_FP8_E4M3:
        return CSHIM_E4M3_BLOCK;
    case CSHIM_CODEC_FP8_E5M2:
        return CSHIM_E5M2_BLOCK;
    case CSHIM_CODEC_INT8:
        return CSHIM_INT8_BLOCK;
    case CSHIM_CODEC_INT4:
        return CSHIM_INT4_BLOCK;
    default:
        return CSHIM_GRAIN;
    }
}

INLINE size_t payload_bytes(enum cshim_codec_id id, size_t count)
{
    bool is_wide = id == CSHIM_CODEC_FP16 || id == CSHIM_CODEC_BF16;
    return is_wide ? 2 * count : id == CSHIM_CODEC_INT4 ? (count + 1) / 2 : count;
}

INLINE struct scale power_scale(uint32_t largest, uint32_t bump, int max_exponent, int min_scale,
                                uint8_t *stored)
{
    int exponent = cshim_scale_exponent(largest, bump, max_exponent, min_scale);
    *stored = (uint8_t)(exponent - min_scale);
    return (struct scale){.exponent = exponent};
}

INLINE struct scale integer_scale(uint16_t code, uint8_t *stored)
{
    cshim_store_scale(stored, 0, code);
    return (struct scale){.integer = cshim_integer_scaling(code)};
}

/* Chooses and stores the scale of a block whose largest finite magnitude is given. */
INLINE struct scale choose_scale(enum cshim_codec_id id, uint32_t largest, uint8_t *stored)
{
    switch (id) {
    case CSHIM_CODEC_FP16:
        return power_scale(largest, CSHIM_FP16_RANDOM_BUMP, CSHIM_FP16_MAX_EXPONENT,
                           CSHIM_FP16_MIN_SCALE, stored);
    case CSHIM_CODEC_FP8_E4M3:
        return power_scale(largest, CSHIM_E4M3_RANDOM_BUMP, CSHIM_E4M3_MAX_EXPONENT,
                           CSHIM_E4M3_MIN_SCALE, stored);
    case CSHIM_CODEC_FP8_E5M2:
        return power_scale(largest, CSHIM_E5M2_RANDOM_BUMP, CSHIM_E5M2_MAX_EXPONENT,
                           CSHIM_E5M2_MIN_SCALE, stored);
    case CSHIM_CODEC_INT8:
        return integer_scale(cshim_int8_scale(largest), stored);
    case CSHIM_CODEC_INT4:
        return integer_scale(cshim_int4_scale(largest), stored);
    default:
        return (struct scale){0};
    }
}

INLINE uint16_t random_code(enum cshim_codec_id id, float value, struct scale scale,
                            uint32_t random)
{
    switch (id) {
    case CSHIM_CODEC_FP16:
        return cshim_fp16_random(value, scale.exponent, random);
    case CSHIM_CODEC_FP8_E4M3:
        return cshim_e4m3_random(value, scale.exponent, random);
    case CSHIM_CODEC_FP8_E5M2:
        return cshim_e5m2_random(value, scale.exponent, random);
    case CSHIM_CODEC_INT8:
        return (uint8_t)cshim_int8_random(value, scale.integer, random);
    case CSHIM_CODEC_INT4:
        return cshim_int4_random(value, scale.integer, random);
    default:
        return cshim_bf16_random(value, random);
    }
}

/* The code of Inf or NaN, which is that of rounding to nearest. */
INLINE uint16_t non_finite_code(enum cshim_codec_id id, float value)
{
    switch (id) {
    case CSHIM_CODEC_FP16:
        return cshim_fp16_encode(value, 0);
    case CSHIM_CODEC_FP8_E4M3:
        return cshim_e4m3_encode(value, 0);
    case CSHIM_CODEC_FP8_E5M2:
        return cshim_e5m2_encode(value, 0);
    case CSHIM_CODEC_INT8:
        return (uint8_t)CSHIM_INT8_NAN;
    case CSHIM_CODEC_INT4:
        return CSHIM_INT4_NAN;
    default:
        return cshim_bf16_encode(value);
    }
}

INLINE void store_codes(enum cshim_codec_id id, const uint16_t *codes, size_t count,
                        uint8_t *payload)
{
    if (id == CSHIM_CODEC_FP16 || id == CSHIM_CODEC_BF16) {
        memcpy(payload, codes, count * sizeof *codes);
    } else if (id == CSHIM_CODEC_INT4) {
        for (size_t i = 0; i < count / 2; i++) {
            uint32_t pair;
            memcpy(&pair, codes + 2 * i, sizeof pair);
            payload[i] = (uint8_t)(pair | pair >> 12);
        }
        if (count % 2 != 0) {
            payload[count / 2] = (uint8_t)codes[count - 1];
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            payload[i] = (uint8_t)codes[i];
        }
    }
}

/* A block with a non-finite element. */
INLINE void exceptional_codes(enum cshim_codec_id id, const float *input, const uint32_t *random,
                              size_t count, uint16_t *codes, uint8_t *stored_scale)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_finite_magnitude(input[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    struct scale scale = choose_scale(id, largest, stored_scale);
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT;
        codes[i] = magnitude < CSHIM_INFINITY_BITS ? random_code(id, input[i], scale, random[i])
                                                   : non_finite_code(id, input[i]);
    }
}

INLINE void block_codes(enum cshim_codec_id id, const float *input, const uint32_t *random,
                        size_t count, uint16_t *codes, uint8_t *stored_scale)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= CSHIM_INFINITY_BITS) {
        exceptional_codes(id, input, random, count, codes, stored_scale);
        return;
    }
    struct scale scale = choose_scale(id, largest, stored_scale);
    for (size_t i = 0; i < count; i++) {
        codes[i] = random_code(id, input[i], scale, random[i]);
    }
}

INLINE void encode(enum cshim_codec_id id, const float *input, const uint32_t *random, size_t count,
                   uint8_t *payload, uint8_t *scales)
{
    const size_t block = block_of(id);
    const size_t scale_bytes = id == CSHIM_CODEC_INT8 || id == CSHIM_CODEC_INT4 ? 2 : 1;
    uint16_t codes[CSHIM_GRAIN];
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        size_t i = 0;
        for (; i + block <= length; i += block) {
            block_codes(id, input + begin + i, random + begin + i, block, codes + i,
                        scales + (begin + i) / block * scale_bytes);
        }
        if (i < length) {
            block_codes(id, input + begin + i, random + begin + i, length - i, codes + i,
                        scales + (begin + i) / block * scale_bytes);
        }
        store_codes(id, codes, length, payload + payload_bytes(id, begin));
    }
}

INLINE const uint32_t *fill(uint64_t key, uint64_t first, size_t count, uint32_t *random)
{
    const uint64_t stream = cshim_random_stream(key);
    const size_t skipped = first % 2;
    for (size_t i = 0; i < (count + skipped + 1) / 2; i++) {
        uint64_t pair = cshim_random_pair(stream, first / 2 + i);
        random[2 * i] = (uint32_t)pair;
        random[2 * i + 1] = (uint32_t)(pair >> 32);
    }
    return random + skipped;
}

/* One loop per format, and the filling, for a level. */
#define DEFINE_ENCODE(target, level, name, id)                                                     \
    target static void name##_##level(const float *input, const uint32_t *random, size_t count,    \
                                      uint8_t *payload, uint8_t *scales)                           \
    {                                                                                              \
        encode(id, input, random, count, payload, scales);                                         \
    }

#define DEFINE_LEVEL(target, level)                                                                \
    DEFINE_ENCODE(target, level, fp16, CSHIM_CODEC_FP16)                                           \
    DEFINE_ENCODE(target, level, bf16, CSHIM_CODEC_BF16)                                           \
    DEFINE_ENCODE(target, level, e4m3, CSHIM_CODEC_FP8_E4M3)                                       \
    DEFINE_ENCODE(target, level, e5m2, CSHIM_CODEC_FP8_E5M2)                                       \
    DEFINE_ENCODE(target, level, int8, CSHIM_CODEC_INT8)                                           \
    DEFINE_ENCODE(target, level, int4, CSHIM_CODEC_INT4)                                           \
    target static const uint32_t *fill_##level(uint64_t key, uint64_t first, size_t count,         \
                                               uint32_t *random)                                   \
    {                                                                                              \
        return fill(key, first, count, random);                                                    \
    }

DEFINE_LEVEL(, scalar)
#if CSHIM_X86
DEFINE_LEVEL(CSHIM_AVX2, avx2)
DEFINE_LEVEL(CSHIM_AVX512, avx512)
#define ALL_LEVELS(name)                                                                           \
    {                                                                                              \
        name##_scalar, name##_avx2, name##_avx512                                                  \
    }
#else
#define ALL_LEVELS(name)                                                                           \
    {                                                                                              \
        name##_scalar                                                                              \
    }
#endif

cshim_random_encode *const cshim_random_kernels[CSHIM_CODEC_COUNT][CSHIM_LEVELS] = {
    [CSHIM_CODEC_FP16] = ALL_LEVELS(fp16),     [CSHIM_CODEC_BF16] = ALL_LEVELS(bf16),
    [CSHIM_CODEC_FP8_E4M3] = ALL_LEVELS(e4m3), [CSHIM_CODEC_FP8_E5M2] = ALL_LEVELS(e5m2),
    [CSHIM_CODEC_INT8] = ALL_LEVELS(int8),     [CSHIM_CODEC_INT4] = ALL_LEVELS(int4),
};

cshim_random_fill *const cshim_random_fills[CSHIM_LEVELS] = ALL_LEVELS(fill);
