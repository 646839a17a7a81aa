/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the conversions of the wire formats that are not packed. The loops on the CPU and the GPU
 * use these functions or, for most blocks, faster code that gives the same bits. Valid C11 and CUDA
 * C++, which must be compiled without contraction to fused multiply-add. docs/wire-format.md gives
 * the formulas in prose.
 *
 * The functions take a format as a structure of numbers. For a codec known at compile time the
 * compiler folds these numbers and removes the branches of other formats. */
#ifndef CSHIM_SCALAR_H
#define CSHIM_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "codecs/codec.h"
#include "codecs/floats.h"

#if defined(__cplusplus)
#define CSHIM_CONSTANT constexpr CSHIM_HD
#else
#define CSHIM_CONSTANT CSHIM_HD
#endif

enum cshim_family {
    CSHIM_FAMILY_UPPER,  /* upper bits of a float32 */
    CSHIM_FAMILY_FLOAT,  /* a small float times a scale */
    CSHIM_FAMILY_INTEGER /* an integer times a scale of 8 significant bits */
};

/* Codes of a small float for values that are not finite. */
enum cshim_special {
    CSHIM_SPECIAL_IEEE, /* the largest exponent: infinity and NaN */
    CSHIM_SPECIAL_ONES, /* all magnitude bits set: NaN */
    CSHIM_SPECIAL_ZERO  /* the code of -0: NaN */
};

/* Types of a small float's scales. */
enum cshim_scale {
    CSHIM_SCALE_POWER, /* 2^(stored + min_scale) */
    CSHIM_SCALE_E8M0,  /* likewise, with OCP's min_scale of -127; 255 is NaN */
    CSHIM_SCALE_E4M3   /* a float in E4M3 (lower byte) times 2^(upper byte + min_scale) */
};

/* A wire format as numbers, computed from its row of formats.def. */
struct cshim_format {
    enum cshim_family family;
    int bits;        /* bits of a code */
    int block;       /* elements that share a scale; CSHIM_GRAIN without scales */
    int scale_bytes; /* 0 without scales */
    /* Floats only: */
    int mantissa_bits; /* also set for CSHIM_FAMILY_UPPER */
    enum cshim_special special;
    enum cshim_scale scale;
    int has_infinity; /* true for CSHIM_SPECIAL_IEEE */
    int min_exponent; /* exponent of the smallest normal code */
    int max_exponent; /* exponent of the largest code (E4M3 scales: times the largest scale) */
    int min_scale;    /* exponent that scale byte 0 means (E4M3 scales: the grain's byte) */
    /* Added to the bits of the largest magnitude of a block (CSHIM_SCALE_E4M3: of a grain) to find
     * the scale's exponent: a magnitude that would round above the top code gets the next exponent.
     * `random_bump` is for stochastic rounding, where every magnitude above the top code may do so.
     */
    uint32_t bump, random_bump;
    /* Only for integers: */
    int top; /* largest code */
};

/* Returns the format of the upper bits of a float32. */
CSHIM_CONSTANT struct cshim_format cshim_upper_format(int bits)
{
    const struct cshim_format format = {CSHIM_FAMILY_UPPER,
                                        bits,
                                        (int)CSHIM_GRAIN,
                                        0,
                                        bits - 9,
                                        CSHIM_SPECIAL_IEEE,
                                        CSHIM_SCALE_POWER,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0};
    return format;
}

/* For CSHIM_SCALE_E4M3, a grain's power of two p is the smallest (in a grain of zeros, 1) for which
 * the grain's largest magnitude is at most p times the largest code times the largest scale: for
 * codes in E2M1, at most p * 6 * 448 = p * 2^11 * 1.3125. With stochastic rounding, for which
 * scales are enlarged, the magnitude is at most p * 2^11 * 1.25. */
#define CSHIM_E4M3_MAX_EXPONENT 8
#define CSHIM_E4M3_BUMP 0x57ffffu
#define CSHIM_E4M3_RANDOM_BUMP 0x5fffffu

/* Returns the format of a small float. Scales of the type POWER begin so low that the smallest code
 * times the smallest scale is float32's smallest number, unless a byte could then not hold the
 * scale of float32's largest number. With E4M3 scales, the largest power of two is that of
 * float32's largest number. The scale E8M0 begins with 2^-127. */
CSHIM_CONSTANT struct cshim_format cshim_float_format(int exponent_bits, int mantissa_bits,
                                                      enum cshim_special special, int block,
                                                      enum cshim_scale scale)
{
    const bool is_e4m3 = scale == CSHIM_SCALE_E4M3;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int own_exponent = special == CSHIM_SPECIAL_IEEE ? bias : bias + 1;
    const int max_exponent = is_e4m3 ? own_exponent + CSHIM_E4M3_MAX_EXPONENT + 1 : own_exponent;
    const int exact = mantissa_bits + bias - 1 - 149, fitting = -127 - max_exponent;
    /* Steps from the top code to the next power of two. */
    const uint32_t steps = special == CSHIM_SPECIAL_ONES ? 2 : 1;
    const uint32_t half_step = 1u << (22 - mantissa_bits);
    const struct cshim_format format = {
        CSHIM_FAMILY_FLOAT,
        1 + exponent_bits + mantissa_bits,
        block,
        1,
        mantissa_bits,
        special,
        scale,
        special == CSHIM_SPECIAL_IEEE,
        1 - bias,
        max_exponent,
        scale == CSHIM_SCALE_E8M0                       ? -127
        : scale == CSHIM_SCALE_POWER && exact > fitting ? exact
                                                        : fitting,
        is_e4m3 ? CSHIM_E4M3_BUMP : (2 * steps - 1) * half_step - (steps - 1),
        is_e4m3 ? CSHIM_E4M3_RANDOM_BUMP : 2 * steps * half_step - 1,
        0};
    return format;
}

/* Returns the format of an integer. */
CSHIM_CONSTANT struct cshim_format cshim_integer_format(int bits, int block)
{
    const struct cshim_format format = {CSHIM_FAMILY_INTEGER,
                                        bits,
                                        block,
                                        2,
                                        0,
                                        CSHIM_SPECIAL_IEEE,
                                        CSHIM_SCALE_POWER,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        (1 << (bits - 1)) - 1};
    return format;
}

/* Returns the format of a codec; for raw, packed and unknown codecs that of fp32. */
CSHIM_CONSTANT struct cshim_format cshim_format(uint32_t codec)
{
    switch (codec) {
#define UPPER(ID, NAME, name, BITS, ...)                                                           \
    case ID:                                                                                       \
        return cshim_upper_format(BITS);
#define FLOAT(ID, NAME, name, EXPONENT, MANTISSA, SPECIAL, BLOCK, SCALE, ...)                      \
    case ID:                                                                                       \
        return cshim_float_format(EXPONENT, MANTISSA, CSHIM_SPECIAL_##SPECIAL, BLOCK,              \
                                  CSHIM_SCALE_##SCALE);
#define INTEGER(ID, NAME, name, BITS, BLOCK, ...)                                                  \
    case ID:                                                                                       \
        return cshim_integer_format(BITS, BLOCK);
#include "codecs/formats.def"
    default:
        return cshim_upper_format(32);
    }
}

/* Returns the bytes of `count` codes, which are packed without gaps, the first in the lowest bits.
 */
CSHIM_HD uint64_t cshim_payload_bytes(unsigned bits, uint64_t count)
{
    return count * (bits / 8) + (count * (bits % 8) + 7) / 8;
}

/* Reads code `i`, which has up to 8 bits and is in one byte or in two. */
CSHIM_HD uint32_t cshim_narrow_code(const uint8_t *payload, unsigned bits, uint64_t i)
{
    const uint64_t bit = bits * i;
    uint32_t window = payload[bit / 8];
    if (bit % 8 + bits > 8)
        window |= (uint32_t)payload[bit / 8 + 1] << 8;
    return window >> bit % 8 & ((1u << bits) - 1);
}

/* Returns the exponent of a block's scale. `largest` is the bits of the block's largest finite
 * magnitude, `headroom` the number of binades that stay free above it. Blocks of zeros, which are
 * frequent in gradients, get 2^0, for which all loops are fast. */
CSHIM_HD int cshim_scale_exponent(struct cshim_format format, uint32_t largest, uint32_t bump,
                                  int headroom)
{
    if (largest == 0)
        return 0;
    int exponent = (int)((largest + bump) >> 23) - 127 - format.max_exponent + headroom;
    return exponent < format.min_scale ? format.min_scale : exponent;
}

/* Returns the exponent of the scale of a whole buffer in fp16, with which 2^headroom times the
 * largest finite magnitude (bits: `largest`) does not round above the top code. */
CSHIM_HD int cshim_cast_exponent(uint32_t largest, int headroom)
{
    const struct cshim_format half = cshim_format(CSHIM_CODEC_FP16);
    return cshim_scale_exponent(half, largest, half.bump, headroom);
}

/* Gives a code the sign of its value; 0 stays 0 where the code of -0 is NaN. */
CSHIM_HD uint32_t cshim_signed_code(struct cshim_format format, float value, uint32_t code)
{
    if (format.special == CSHIM_SPECIAL_ZERO && code == 0)
        return 0;
    return cshim_float_bits(value) >> 31 << (format.bits - 1) | code;
}

/* Returns the code of infinity; that of NaN if the format has no infinity. */
CSHIM_HD uint32_t cshim_float_infinity(struct cshim_format format)
{
    const uint32_t sign = 1u << (format.bits - 1), largest = sign - 1;
    return format.special == CSHIM_SPECIAL_IEEE
               ? largest >> format.mantissa_bits << format.mantissa_bits
           : format.special == CSHIM_SPECIAL_ONES ? largest
                                                  : sign;
}

/* Returns the code nearest to value / 2^exponent * inverse. */
CSHIM_HD uint32_t cshim_float_encode_by(struct cshim_format format, float value, int exponent,
                                        float inverse)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    uint32_t infinity = cshim_float_infinity(format);
    if (magnitude > CSHIM_INFINITY_BITS ||
        (magnitude == CSHIM_INFINITY_BITS && !format.has_infinity))
        return format.has_infinity ? infinity | 1u << (format.mantissa_bits - 1) : infinity;
    if (magnitude == CSHIM_INFINITY_BITS)
        return cshim_signed_code(format, value, infinity);
    float scaled = cshim_scale_by_power(value, -exponent) * inverse;
    return cshim_signed_code(
        format, value, cshim_minifloat_encode(scaled, format.mantissa_bits, format.min_exponent));
}

/* Returns the code nearest to value / 2^exponent. */
CSHIM_HD uint32_t cshim_float_encode(struct cshim_format format, float value, int exponent)
{
    return cshim_float_encode_by(format, value, exponent, 1.0f);
}

/* Returns the value of a code times `step` times 2^exponent. The first product is exact. A finite
 * code never becomes Inf. */
CSHIM_HD float cshim_float_decode_by(struct cshim_format format, uint32_t code, int exponent,
                                     float step)
{
    uint32_t sign = code >> (format.bits - 1) << 31;
    uint32_t magnitude = code & ((1u << (format.bits - 1)) - 1);
    uint32_t infinity = cshim_float_infinity(format);
    if (magnitude >= infinity || code == infinity) {
        bool is_infinity = magnitude == infinity && format.has_infinity;
        return cshim_bits_float(is_infinity ? sign | CSHIM_INFINITY_BITS : CSHIM_NAN_BITS);
    }
    float value = cshim_minifloat_decode(magnitude, format.mantissa_bits, format.min_exponent);
    value = cshim_saturate(cshim_scale_by_power(value * step, exponent));
    return cshim_bits_float(sign | cshim_float_bits(value));
}

CSHIM_HD float cshim_float_decode(struct cshim_format format, uint32_t code, int exponent)
{
    return cshim_float_decode_by(format, code, exponent, 1.0f);
}

/* Conversions of fp16 and bf16, which are also element types. fp16 is IEEE binary16 times
 * 2^exponent; bf16 is the upper half of a float32, where a finite value never becomes Inf. */
/* Returns the IEEE binary16 code of value / 2^exponent. */
CSHIM_HD uint16_t cshim_fp16_encode(float value, int exponent)
{
    return (uint16_t)cshim_float_encode(cshim_format(CSHIM_CODEC_FP16), value, exponent);
}

/* Returns the value of an IEEE binary16 code times 2^exponent. */
CSHIM_HD float cshim_fp16_decode(uint16_t code, int exponent)
{
    return cshim_float_decode(cshim_format(CSHIM_CODEC_FP16), code, exponent);
}

/* Converts to IEEE binary16, for buffers of float16. Values that are too large become Inf, because
 * programs check for overflow (loss scalers). */
CSHIM_HD uint16_t cshim_half_from_float(float value)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude >= 0x477ff000u && magnitude < CSHIM_INFINITY_BITS)
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7c00u);
    return cshim_fp16_encode(value, 0);
}

/* Rounds to bf16, the upper half of a float32. A finite value never becomes Inf. */
CSHIM_HD uint16_t cshim_bf16_encode(float value)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude >= CSHIM_INFINITY_BITS)
        return (uint16_t)(magnitude > CSHIM_INFINITY_BITS ? 0x7fc0u : sign | 0x7f80u);
    uint32_t rounded = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;
    return (uint16_t)(sign | (rounded > 0x7f7fu ? 0x7f7fu : rounded));
}

/* Rounds a finite value to bf16 at random: adding 16 random bits to the 16 dropped ones produces a
 * carry with the right probability. */
CSHIM_HD uint16_t cshim_bf16_random(float value, uint32_t random)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t rounded = ((bits & ~CSHIM_SIGN_BIT) + (random >> 16)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rounded > 0x7f7fu ? 0x7f7fu : rounded));
}

/* Returns the value of a bf16 code. */
CSHIM_HD float cshim_bf16_decode(uint16_t code)
{
    return cshim_canonical(cshim_bits_float((uint32_t)code << 16));
}

/* Scale codes of the integer formats. A code of 16 bits, E << 7 | m, means (128 + m) * 2^(E - 156).
 * The code of a scale that is a normal float32 is the scale's upper half plus
 * CSHIM_INTEGER_SCALE_OFFSET. A scale is ordinary if it is normal and 128 times it is finite. */
#define CSHIM_INTEGER_SCALE_OFFSET (22 << 7)
#define CSHIM_INTEGER_FIRST_ORDINARY (23 << 7)
#define CSHIM_INTEGER_LAST_ORDINARY ((269 << 7) + 127)
/* Code of the scale 2^0, for blocks of zeros. */
#define CSHIM_INTEGER_UNIT_SCALE (149 << 7)

/* Returns the code of the smallest scale for which top * scale is at least the largest magnitude
 * (bits: `largest`), and that of 2^0 if the largest magnitude is 0. 2^24 / (top * 2^shift) is from
 * 256 to 511, so either shift or shift + 1 gives a significand from 128 to 255. */
CSHIM_HD uint32_t cshim_integer_scale(struct cshim_format format, uint32_t largest)
{
    const uint32_t top = (uint32_t)format.top;
    const int shift = 17 - format.bits + (format.bits == 2);
    int exponent = (int)(largest >> 23);
    uint32_t mantissa = largest & 0x7fffffu;
    if (exponent > 0)
        mantissa |= 0x800000u;
    else
        for (exponent = 1; mantissa != 0 && mantissa < 0x800000u; exponent--)
            mantissa <<= 1;
    /* Divides largest = mantissa * 2^(exponent - 150) by the top code, rounding up. Halves the
     * dividend if the quotient has more than 8 bits, without a branch, which would be
     * unpredictable. */
    const uint32_t divisor = top << shift, is_half = mantissa > 255 * divisor;
    const uint32_t steps = (((mantissa + is_half) >> is_half) + divisor - 1) / divisor;
    const int scale_exponent = exponent + 6 + shift + (int)is_half;
    if (mantissa == 0)
        return CSHIM_INTEGER_UNIT_SCALE;
    if (scale_exponent < 0)
        return 0;
    return (uint32_t)scale_exponent << 7 | (steps - 128u);
}

/* Returns the integer nearest to `steps`, whose magnitude must be below 2^22. */
CSHIM_HD int cshim_nearest_integer(float steps)
{
    const float round = 0x1.8p23f; /* its last place is 1, so the sum is rounded to an integer */
    return (int)(cshim_float_bits(steps + round) - cshim_float_bits(round));
}

/* Returns the value of an integer code with a scale code. */
CSHIM_HD float cshim_integer_decode(int code, uint32_t scale)
{
    float value = (float)(code * (int)(128 + (scale & 127)));
    return cshim_saturate(cshim_scale_by_power(value, (int)(scale >> 7) - 156));
}

/* Scales of the type E4M3. A stored scale has the code of a block's E4M3 scale in the lower byte,
 * and its grain's power of two in the upper one. Encoders choose normal E4M3 numbers only. Ordinary
 * scales are normal E4M3 numbers with a power of two in the range below. The product of both, and
 * its reciprocal, are normal floats, even if the product is multiplied by 2^14 for codes that are
 * read as binary16. */
#define CSHIM_E4M3_FIRST_NORMAL 8u
#define CSHIM_E4M3_NAN 127u
#define CSHIM_E4M3_FIRST_ORDINARY 18u
#define CSHIM_E4M3_LAST_ORDINARY 240u

/* Factors of a block's largest magnitude for its scale: 1 / 6, rounded; and 17 / 96 with stochastic
 * rounding, slightly enlarged, so that 6 times the rounded scale is above the magnitude. */
#define CSHIM_E4M3_SHARE 0x1.555556p-3f
#define CSHIM_E4M3_RANDOM_SHARE 0x1.6aab06p-3f

/* Returns the value of the E4M3 number in a stored scale; NaN is not supported. */
CSHIM_HD float cshim_e4m3_value(uint32_t stored)
{
    return cshim_minifloat_decode(stored & 127u, 3, -6);
}

/* Returns true if a stored scale of the type E4M3 is ordinary. */
CSHIM_HD bool cshim_e4m3_is_ordinary(uint32_t stored)
{
    return (stored & 127u) - CSHIM_E4M3_FIRST_NORMAL < CSHIM_E4M3_NAN - CSHIM_E4M3_FIRST_NORMAL &&
           (stored >> 8) - CSHIM_E4M3_FIRST_ORDINARY <=
               CSHIM_E4M3_LAST_ORDINARY - CSHIM_E4M3_FIRST_ORDINARY;
}

/* Returns an ordinary scale of the type E4M3 times 2^raised, which is a normal float. */
CSHIM_HD float cshim_e4m3_step(struct cshim_format format, uint32_t stored, int raised)
{
    const int exponent = (int)(stored >> 8) + format.min_scale + raised;
    return cshim_bits_float(((stored & 127u) << 20) + ((uint32_t)(120 + exponent) << 23));
}

/* Returns the bits 7, 15, ... 63 of eight bytes as one byte, the first byte's the lowest. */
CSHIM_HD uint32_t cshim_upper_bits(const uint8_t *bytes)
{
    uint64_t word;
#if defined(__CUDA_ARCH__)
    word = *(const uint64_t *)bytes; /* aligned, and one load */
#else
    memcpy(&word, bytes, sizeof word);
#endif
    return (uint32_t)((word >> 7 & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/* Reads a block's stored scale; 0 for formats without scales. `scales` must begin with the first
 * scale of a grain if the scales are E4M3: the upper bits of the first 8 of a grain's 16 scales are
 * its power of two. */
CSHIM_HD uint32_t cshim_load_scale(struct cshim_format format, const uint8_t *scales,
                                   uint64_t block)
{
    if (format.scale == CSHIM_SCALE_E4M3)
        return (scales[block] & 127u) | cshim_upper_bits(scales + (block & ~(uint64_t)15)) << 8;
    if (format.scale_bytes == 2)
        return scales[2 * block] | (uint32_t)scales[2 * block + 1] << 8;
    return format.scale_bytes == 1 ? scales[block] : 0;
}

/* Returns the byte to store for scale `block` of the type E4M3: the scale's code and, in the first
 * 8 of a grain's 16 bytes, a bit of the grain's power of two. */
CSHIM_HD uint8_t cshim_e4m3_byte(uint64_t block, uint32_t stored)
{
    return (uint8_t)((stored & 127u) | (stored >> (8 + block % 16) & 1u) << 7);
}

CSHIM_HD void cshim_store_scale(struct cshim_format format, uint8_t *scales, uint64_t block,
                                uint32_t stored)
{
    if (format.scale == CSHIM_SCALE_E4M3) {
        scales[block] = cshim_e4m3_byte(block, stored);
        return;
    }
    for (int byte = 0; byte < format.scale_bytes; byte++)
        scales[(uint64_t)format.scale_bytes * block + (uint64_t)byte] =
            (uint8_t)(stored >> 8 * byte);
}

/* Factors for rounding the elements of a block; each family uses some of the fields. For integers,
 * elements and step are multiplied by 2^64 if the scale is below the ordinary ones, and by 2^-64 if
 * it is above them, so that the step and its reciprocal are normal floats. */
struct cshim_scaling {
    int exponent;  /* floats: elements are divided by 2^exponent */
    float lift;    /* integers: factor of the elements: 1, 2^64 or 2^-64 */
    float step;    /* integers: the scale times `lift`; floats: the E4M3 scale, or 1 */
    float inverse; /* the rounded reciprocal of step */
};

/* Returns the stored scale of a block whose largest finite magnitude has the bits `largest`; 0 for
 * a format without scales. For CSHIM_SCALE_E4M3, `largest` is that of a grain, and
 * cshim_refine_scale() completes the scale of each block. */
CSHIM_HD uint32_t cshim_choose_scale(struct cshim_format format, uint32_t largest, int at_random)
{
    if (format.family == CSHIM_FAMILY_FLOAT) {
        uint32_t bump = at_random ? format.random_bump : format.bump;
        uint32_t stored =
            (uint32_t)(cshim_scale_exponent(format, largest, bump, 0) - format.min_scale);
        return format.scale == CSHIM_SCALE_E4M3 ? stored << 8 : stored;
    }
    return format.family == CSHIM_FAMILY_INTEGER ? cshim_integer_scale(format, largest) : 0;
}

/* Returns the stored scale of a block of a grain: `stored` itself, or for CSHIM_SCALE_E4M3 with the
 * normal E4M3 number nearest to the block's largest finite magnitude (bits: `largest`) divided by 6
 * and by the grain's power of two. With stochastic rounding multiplies by 17 / 96
 * instead of dividing by 6. */
CSHIM_HD uint32_t cshim_refine_scale(struct cshim_format format, uint32_t stored, uint32_t largest,
                                     int at_random)
{
    if (format.scale != CSHIM_SCALE_E4M3)
        return stored;
    const float share = at_random ? CSHIM_E4M3_RANDOM_SHARE : CSHIM_E4M3_SHARE;
    const int exponent = (int)(stored >> 8) + format.min_scale;
    const float wanted = cshim_scale_by_power(cshim_bits_float(largest), -exponent) * share;
    const uint32_t code = cshim_minifloat_encode(wanted, 3, -6);
    return stored | (code < CSHIM_E4M3_FIRST_NORMAL ? CSHIM_E4M3_FIRST_NORMAL : code);
}

/* Returns the factors of a block with a stored scale. */
CSHIM_HD struct cshim_scaling cshim_scaling(struct cshim_format format, uint32_t stored)
{
    struct cshim_scaling scaling = {0, 1.0f, 1.0f, 1.0f};
    if (format.family == CSHIM_FAMILY_FLOAT && format.scale == CSHIM_SCALE_E4M3) {
        scaling.exponent = (int)(stored >> 8) + format.min_scale;
        scaling.step = cshim_e4m3_value(stored);
        scaling.inverse = 1.0f / scaling.step;
    } else if (format.family == CSHIM_FAMILY_FLOAT) {
        scaling.exponent = (int)stored + format.min_scale;
    } else if (format.family == CSHIM_FAMILY_INTEGER) {
        int lift = stored < CSHIM_INTEGER_FIRST_ORDINARY  ? 64
                   : stored > CSHIM_INTEGER_LAST_ORDINARY ? -64
                                                          : 0;
        int lifted = (int)stored - CSHIM_INTEGER_SCALE_OFFSET + lift * 128;
        scaling.lift = cshim_power_of_two(lift);
        scaling.step = cshim_bits_float((uint32_t)lifted << 16);
        scaling.inverse = 1.0f / scaling.step;
    }
    return scaling;
}

/* Error feedback: returns the number of elements whose largest magnitude limits a residual. */
CSHIM_HD int cshim_feedback_block(struct cshim_format format)
{
    return format.scale == CSHIM_SCALE_E4M3 ? (int)CSHIM_GRAIN : format.block;
}

/* Returns the limit of a residual of error feedback, as a fraction of the largest finite magnitude
 * of the element's block. It is about the distance between two codes near that magnitude, which
 * is twice the largest error of rounding to nearest; with stochastic rounding, twice as much. A
 * larger residual comes from data of another magnitude. */
CSHIM_HD float cshim_feedback_share(struct cshim_format format, int at_random)
{
    const float step = format.family == CSHIM_FAMILY_INTEGER
                           ? 1.0f / (float)format.top
                           : cshim_power_of_two(-format.mantissa_bits);
    return at_random ? 2 * step : step;
}

/* Returns the code of any element, rounded to nearest. */
CSHIM_HD uint32_t cshim_encode_nearest(struct cshim_format format, float value,
                                       struct cshim_scaling scaling)
{
    if (format.family == CSHIM_FAMILY_FLOAT)
        return cshim_float_encode_by(format, value, scaling.exponent, scaling.inverse);
    if (format.family == CSHIM_FAMILY_UPPER)
        return format.bits == 32 ? cshim_float_bits(value) : cshim_bf16_encode(value);
    bool is_finite = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
    int code =
        is_finite ? cshim_nearest_integer(value * scaling.lift * scaling.inverse) : -format.top - 1;
    return (uint32_t)code & (0xffffffffu >> (32 - format.bits));
}

/* Returns the code of a finite element, rounded up or down at random. An integer code is the
 * nearest one or, with a probability equal to the distance from the nearest, the one on the other
 * side of the value. `rest` is computed exactly, except for values that are tiny compared to their
 * scale. */
CSHIM_HD uint32_t cshim_encode_random(struct cshim_format format, float value,
                                      struct cshim_scaling scaling, uint32_t random)
{
    if (format.family == CSHIM_FAMILY_FLOAT) {
        float scaled = cshim_scale_by_power(value, -scaling.exponent);
        if (format.scale == CSHIM_SCALE_E4M3)
            scaled /= scaling.step; /* exact for multiples of the scale, unlike * scaling.inverse */
        return cshim_signed_code(
            format, value,
            cshim_minifloat_random(scaled, format.mantissa_bits, format.min_exponent, random));
    }
    if (format.family == CSHIM_FAMILY_UPPER)
        return format.bits == 32 ? cshim_float_bits(value) : cshim_bf16_random(value, random);
    int nearest = cshim_nearest_integer(value * scaling.lift * scaling.inverse);
    float rest = value * scaling.lift - (float)nearest * scaling.step;
    float distance = cshim_bits_float(cshim_float_bits(rest) & ~CSHIM_SIGN_BIT);
    int moves = cshim_happens(distance * scaling.inverse, random);
    int towards = 1 - 2 * (int)(cshim_float_bits(rest) >> 31);
    return (uint32_t)(nearest + towards * moves) & (0xffffffffu >> (32 - format.bits));
}

/* Returns the value of a code, whose higher bits are 0, with the stored scale. */
CSHIM_HD float cshim_decode_code(struct cshim_format format, uint32_t code, uint32_t stored)
{
    if (format.scale == CSHIM_SCALE_E4M3)
        return (stored & 127u) == CSHIM_E4M3_NAN
                   ? cshim_bits_float(CSHIM_NAN_BITS)
                   : cshim_float_decode_by(format, code, (int)(stored >> 8) + format.min_scale,
                                           cshim_e4m3_value(stored));
    if (format.scale == CSHIM_SCALE_E8M0 && stored == 255)
        return cshim_bits_float(CSHIM_NAN_BITS);
    if (format.family == CSHIM_FAMILY_FLOAT)
        return cshim_float_decode(format, code, (int)stored + format.min_scale);
    if (format.family == CSHIM_FAMILY_UPPER)
        return format.bits == 32 ? cshim_bits_float(code) : cshim_bf16_decode((uint16_t)code);
    int half = format.top + 1;
    return code == (uint32_t)half ? cshim_bits_float(CSHIM_NAN_BITS)
                                  : cshim_integer_decode(((int)code ^ half) - half, stored);
}

#endif
