/* SPDX-License-Identifier: Apache-2.0 */
/* Defines every conversion of every wire format once: for the portable loops, for the rare blocks
 * of the vector loops, and for the GPU. Valid C11 and CUDA C++; the arithmetic is that of floats.h.
 * docs/wire-format.md gives the formulas in prose.
 *
 * The functions take a format as a structure of numbers. If the codec is a compile-time constant,
 * so are these, and the compiler removes what the format does not need. */
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
    CSHIM_FAMILY_FLOAT,  /* a small float times a power of two */
    CSHIM_FAMILY_INTEGER /* an integer times a scale of 8 significant bits */
};

/* A wire format as numbers, computed from its row of formats.def. */
struct cshim_format {
    enum cshim_family family;
    int bits;        /* bits of a code */
    int block;       /* elements that share a scale; CSHIM_GRAIN without scales */
    int scale_bytes; /* bytes of a scale; 0 without scales */
    /* Only for floats: */
    int mantissa_bits; /* also for CSHIM_FAMILY_UPPER */
    int has_infinity;  /* 0: only the code with all magnitude bits set is reserved, for NaN */
    int min_exponent;  /* exponent of the smallest normal code */
    int max_exponent;  /* exponent of the largest code */
    int min_scale;     /* exponent that scale byte 0 means */
    /* Addends to the bits of a block's largest magnitude before its exponent is read, so that a
     * magnitude that would round above the top code gets the next exponent: `bump` for rounding to
     * nearest, `random_bump` for stochastic rounding, which may round every magnitude above the top
     * code so. */
    uint32_t bump, random_bump;
    /* Only for integers: */
    int top; /* largest code */
};

/* Returns the format of the upper bits of a float32. */
CSHIM_CONSTANT struct cshim_format cshim_upper_format(int bits)
{
    const struct cshim_format format = {
        CSHIM_FAMILY_UPPER, bits, (int)CSHIM_GRAIN, 0, bits - 9, 0, 0, 0, 0, 0, 0, 0};
    return format;
}

/* Returns the format of a small float. With its smallest scale the smallest code is float32's
 * smallest number, or a larger one if otherwise a byte could not hold the scale of float32's
 * largest number. */
CSHIM_CONSTANT struct cshim_format cshim_float_format(int exponent_bits, int mantissa_bits,
                                                      int has_infinity, int block)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int max_exponent = has_infinity ? bias : bias + 1;
    const int exact = mantissa_bits + bias - 1 - 149, fitting = -127 - max_exponent;
    const uint32_t steps = has_infinity ? 1 : 2; /* from the top code to the next power of two */
    const uint32_t half_step = 1u << (22 - mantissa_bits);
    const struct cshim_format format = {CSHIM_FAMILY_FLOAT,
                                        1 + exponent_bits + mantissa_bits,
                                        block,
                                        1,
                                        mantissa_bits,
                                        has_infinity,
                                        1 - bias,
                                        max_exponent,
                                        exact > fitting ? exact : fitting,
                                        (2 * steps - 1) * half_step - (steps - 1),
                                        2 * steps * half_step - 1,
                                        0};
    return format;
}

/* Returns the format of an integer. */
CSHIM_CONSTANT struct cshim_format cshim_integer_format(int bits, int block)
{
    const struct cshim_format format = {CSHIM_FAMILY_INTEGER, bits, block, 2, 0, 0, 0, 0, 0, 0, 0,
                                        (1 << (bits - 1)) - 1};
    return format;
}

/* Returns the format of a codec; for raw and unknown codecs that of fp32. */
CSHIM_CONSTANT struct cshim_format cshim_format(uint32_t codec)
{
    switch (codec) {
#define UPPER(ID, NAME, name, BITS, ...)                                                           \
    case ID:                                                                                       \
        return cshim_upper_format(BITS);
#define FLOAT(ID, NAME, name, EXPONENT, MANTISSA, INFINITE, BLOCK, ...)                            \
    case ID:                                                                                       \
        return cshim_float_format(EXPONENT, MANTISSA, INFINITE, BLOCK);
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
 * largest finite magnitude (bits: `largest`) stays below the top code. */
CSHIM_HD int cshim_cast_exponent(uint32_t largest, int headroom)
{
    const struct cshim_format half = cshim_format(CSHIM_CODEC_FP16);
    return cshim_scale_exponent(half, largest, half.bump, headroom);
}

/* Returns the sign bit of a value's code, all other bits 0. */
CSHIM_HD uint32_t cshim_code_sign(struct cshim_format format, float value)
{
    return cshim_float_bits(value) >> 31 << (format.bits - 1);
}

/* Returns the code of infinity; that of NaN if the format has no infinity. */
CSHIM_HD uint32_t cshim_float_infinity(struct cshim_format format)
{
    const uint32_t largest = (1u << (format.bits - 1)) - 1;
    return format.has_infinity ? largest >> format.mantissa_bits << format.mantissa_bits : largest;
}

/* Returns the code of value / 2^exponent. */
CSHIM_HD uint32_t cshim_float_encode(struct cshim_format format, float value, int exponent)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    uint32_t infinity = cshim_float_infinity(format);
    if (magnitude > CSHIM_INFINITY_BITS ||
        (magnitude == CSHIM_INFINITY_BITS && !format.has_infinity))
        return format.has_infinity ? infinity | 1u << (format.mantissa_bits - 1) : infinity;
    if (magnitude == CSHIM_INFINITY_BITS)
        return cshim_code_sign(format, value) | infinity;
    float scaled = cshim_scale_by_power(value, -exponent);
    return cshim_code_sign(format, value) |
           cshim_minifloat_encode(scaled, format.mantissa_bits, format.min_exponent);
}

/* Returns the value of a code times 2^exponent. */
CSHIM_HD float cshim_float_decode(struct cshim_format format, uint32_t code, int exponent)
{
    uint32_t sign = code >> (format.bits - 1) << 31;
    uint32_t magnitude = code & ((1u << (format.bits - 1)) - 1);
    uint32_t infinity = cshim_float_infinity(format);
    if (magnitude >= infinity) {
        bool is_infinity = magnitude == infinity && format.has_infinity;
        return cshim_bits_float(is_infinity ? sign | CSHIM_INFINITY_BITS : CSHIM_NAN_BITS);
    }
    float value = cshim_minifloat_decode(magnitude, format.mantissa_bits, format.min_exponent);
    value = cshim_saturate(cshim_scale_by_power(value, exponent));
    return cshim_bits_float(sign | cshim_float_bits(value));
}

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

/* Rounds to bf16 at random: adding 16 random bits to the 16 dropped ones produces a carry with the
 * right probability. */
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

/* Scale codes of the integer formats. A code has 16 bits, E << 7 | m, and means (128 + m) *
 * 2^(E - 156). The code of a scale that is a normal float32 is the scale's upper half minus
 * CSHIM_INTEGER_SCALE_OFFSET. A scale is ordinary if it is normal and 127 times it is finite. */
#define CSHIM_INTEGER_SCALE_OFFSET (22 << 7)
#define CSHIM_INTEGER_FIRST_ORDINARY (23 << 7)
#define CSHIM_INTEGER_LAST_ORDINARY ((269 << 7) + 127)
/* Code of the scale 2^0, for blocks of zeros. */
#define CSHIM_INTEGER_UNIT_SCALE (149 << 7)

/* Returns the code of the smallest scale for which top * scale is at least the largest magnitude
 * (bits: `largest`). 2^24 / (top * 2^shift) is from 256 to 511, so either shift or shift + 1 gives
 * a significand from 128 to 255. */
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
    /* Divides largest = mantissa * 2^(exponent - 150) by the top code, rounding up. Halves a
     * quotient of more than 8 bits, without a branch, which would be unpredictable. */
    const uint32_t divisor = top << shift, is_half = mantissa > 255 * divisor;
    const uint32_t steps = (((mantissa + is_half) >> is_half) + divisor - 1) / divisor;
    const int scale_exponent = exponent + 6 + shift + (int)is_half;
    if (mantissa == 0)
        return CSHIM_INTEGER_UNIT_SCALE;
    if (scale_exponent < 0)
        return 0;
    return (uint32_t)scale_exponent << 7 | (steps - 128u);
}

/* Returns the integer nearest to `steps`. */
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

/* Factors for rounding the elements of a block. Floats use `exponent`, integers the other fields.
 * Elements and step of integers are multiplied by 2^64 if the scale is below the ordinary ones, and
 * by 2^-64 if above, so that they are normal floats. */
struct cshim_scaling {
    int exponent;  /* exponent of the scale */
    float lift;    /* factor of the elements: 1, 2^64 or 2^-64 */
    float step;    /* scale times `lift` */
    float inverse; /* rounded reciprocal of `step` */
};

/* Returns the stored scale of a block whose largest finite magnitude has the bits `largest`; 0 for
 * a format without scales. */
CSHIM_HD uint32_t cshim_choose_scale(struct cshim_format format, uint32_t largest, int at_random)
{
    if (format.family == CSHIM_FAMILY_FLOAT) {
        uint32_t bump = at_random ? format.random_bump : format.bump;
        return (uint32_t)(cshim_scale_exponent(format, largest, bump, 0) - format.min_scale);
    }
    return format.family == CSHIM_FAMILY_INTEGER ? cshim_integer_scale(format, largest) : 0;
}

/* Returns the factors of a block with a stored scale. */
CSHIM_HD struct cshim_scaling cshim_scaling(struct cshim_format format, uint32_t stored)
{
    struct cshim_scaling scaling = {0, 1.0f, 1.0f, 1.0f};
    if (format.family == CSHIM_FAMILY_FLOAT) {
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

/* Returns the limit of a residual of error feedback, as a fraction of the largest finite magnitude
 * of the element's block. The limit is the distance between the codes near that magnitude, twice
 * the largest error of rounding to nearest; stochastic rounding may lose twice as much. A larger
 * residual comes from data of another magnitude. */
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
        return cshim_float_encode(format, value, scaling.exponent);
    if (format.family == CSHIM_FAMILY_UPPER)
        return format.bits == 32 ? cshim_float_bits(value) : cshim_bf16_encode(value);
    bool is_finite = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
    int code =
        is_finite ? cshim_nearest_integer(value * scaling.lift * scaling.inverse) : -format.top - 1;
    return (uint32_t)code & (0xffffffffu >> (32 - format.bits));
}

/* Returns the code of a finite element, rounded up or down at random. An integer code is the
 * nearest one or, with a probability equal to the distance to that, the one on the other side of
 * the value. Product and difference are exact, except for values that are tiny compared to their
 * scale. */
CSHIM_HD uint32_t cshim_encode_random(struct cshim_format format, float value,
                                      struct cshim_scaling scaling, uint32_t random)
{
    if (format.family == CSHIM_FAMILY_FLOAT) {
        float scaled = cshim_scale_by_power(value, -scaling.exponent);
        return cshim_code_sign(format, value) |
               cshim_minifloat_random(scaled, format.mantissa_bits, format.min_exponent, random);
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
    if (format.family == CSHIM_FAMILY_FLOAT)
        return cshim_float_decode(format, code, (int)stored + format.min_scale);
    if (format.family == CSHIM_FAMILY_UPPER)
        return format.bits == 32 ? cshim_bits_float(code) : cshim_bf16_decode((uint16_t)code);
    int half = format.top + 1;
    return code == (uint32_t)half ? cshim_bits_float(CSHIM_NAN_BITS)
                                  : cshim_integer_decode(((int)code ^ half) - half, stored);
}

#endif
