/* SPDX-License-Identifier: Apache-2.0 */
/* Every conversion of every wire format, defined once, for the CPU reference, the tests' claim that
 * the SIMD versions are right, and the GPU kernels. Valid C11 and CUDA C++; the arithmetic is that
 * of floats.h. docs/wire-format.md gives the formulas in prose.
 */
#ifndef CSHIM_SCALAR_H
#define CSHIM_SCALAR_H

#include <stdint.h>

#include "codecs/floats.h"

/* Block sizes, largest exponents, smallest scale exponents, and what is added to the bits of the
 * largest magnitude so that one that would round above the top code takes the next exponent: BUMP
 * where it is rounded to nearest, RANDOM_BUMP where at random (then, any that is above that code).
 */
#define CSHIM_FP16_BLOCK 256
#define CSHIM_FP16_MAX_EXPONENT 15
#define CSHIM_FP16_MIN_SCALE (-125)
#define CSHIM_FP16_BUMP 0x1000u
#define CSHIM_FP16_RANDOM_BUMP 0x1fffu

#define CSHIM_E4M3_BLOCK 128
#define CSHIM_E4M3_MAX_EXPONENT 8
#define CSHIM_E4M3_MIN_SCALE (-135)
#define CSHIM_E4M3_BUMP 0x17ffffu
#define CSHIM_E4M3_RANDOM_BUMP 0x1fffffu

#define CSHIM_E5M2_BLOCK 128
#define CSHIM_E5M2_MAX_EXPONENT 15
#define CSHIM_E5M2_MIN_SCALE (-133)
#define CSHIM_E5M2_BUMP 0x100000u
#define CSHIM_E5M2_RANDOM_BUMP 0x1fffffu

#define CSHIM_INT8_BLOCK 64
#define CSHIM_INT8_NAN (-128)

#define CSHIM_INT4_BLOCK 32
#define CSHIM_INT4_NAN 8 /* -8 in four bits */

/* The exponent of the scale of a block whose largest finite magnitude has the bits given. Zeros
 * take 2^0, which all loops have a fast way for; gradients have many blocks of zeros. */
CSHIM_HD int cshim_scale_exponent(uint32_t largest, uint32_t bump, int max_exponent, int min_scale)
{
    if (largest == 0) {
        return 0;
    }
    int exponent = (int)((largest + bump) >> 23) - 127 - max_exponent;
    return exponent < min_scale ? min_scale : exponent;
}

/* fp16: IEEE binary16 times 2^exponent. */
CSHIM_HD uint16_t cshim_fp16_encode(float value, int exponent)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude > CSHIM_INFINITY_BITS) {
        return 0x7e00u;
    }
    if (magnitude == CSHIM_INFINITY_BITS) {
        return (uint16_t)(sign | 0x7c00u);
    }
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint16_t)(sign | cshim_minifloat_encode(scaled, 10, -14));
}

/* The same for a finite value, rounded at random; likewise for the other formats below. */
CSHIM_HD uint16_t cshim_fp16_random(float value, int exponent, uint32_t random)
{
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint16_t)((cshim_float_bits(value) >> 16 & 0x8000u) |
                      cshim_minifloat_random(scaled, 10, -14, random));
}

CSHIM_HD float cshim_fp16_decode(uint16_t code, int exponent)
{
    uint32_t sign = (code & 0x8000u) << 16;
    uint32_t magnitude = code & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return cshim_bits_float(magnitude > 0x7c00u ? CSHIM_NAN_BITS : sign | CSHIM_INFINITY_BITS);
    }
    float value = cshim_minifloat_decode(magnitude, 10, -14);
    value = cshim_saturate(cshim_scale_by_power(value, exponent));
    return cshim_bits_float(sign | cshim_float_bits(value));
}

/* The IEEE conversion to binary16, for buffers of float16: what is too large becomes Inf, because
 * programs that watch for overflow (loss scalers) must see it. */
CSHIM_HD uint16_t cshim_half_from_float(float value)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude >= 0x477ff000u && magnitude < CSHIM_INFINITY_BITS) {
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7c00u);
    }
    return cshim_fp16_encode(value, 0);
}

/* bf16: the upper half of a float32. A finite value never becomes Inf. */
CSHIM_HD uint16_t cshim_bf16_encode(float value)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude >= CSHIM_INFINITY_BITS) {
        return (uint16_t)(magnitude > CSHIM_INFINITY_BITS ? 0x7fc0u : sign | 0x7f80u);
    }
    uint32_t rounded = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16;
    return (uint16_t)(sign | (rounded > 0x7f7fu ? 0x7f7fu : rounded));
}

/* The 16 bits that are dropped, plus 16 random ones, carry with the probability of the former. */
CSHIM_HD uint16_t cshim_bf16_random(float value, uint32_t random)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t rounded = ((bits & ~CSHIM_SIGN_BIT) + (random >> 16)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rounded > 0x7f7fu ? 0x7f7fu : rounded));
}

CSHIM_HD float cshim_bf16_decode(uint16_t code)
{
    return cshim_canonical(cshim_bits_float((uint32_t)code << 16));
}

/* fp8_e4m3: 4 exponent and 3 mantissa bits, top 448, no Inf, NaN 0x7f; times 2^exponent. */
CSHIM_HD uint8_t cshim_e4m3_encode(float value, int exponent)
{
    uint32_t bits = cshim_float_bits(value);
    if ((bits & ~CSHIM_SIGN_BIT) >= CSHIM_INFINITY_BITS) {
        return 0x7fu;
    }
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint8_t)((bits >> 24 & 0x80u) | cshim_minifloat_encode(scaled, 3, -6));
}

CSHIM_HD uint8_t cshim_e4m3_random(float value, int exponent, uint32_t random)
{
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint8_t)((cshim_float_bits(value) >> 24 & 0x80u) |
                     cshim_minifloat_random(scaled, 3, -6, random));
}

CSHIM_HD float cshim_e4m3_decode(uint8_t code, int exponent)
{
    uint32_t sign = (code & 0x80u) << 24;
    uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7fu) {
        return cshim_bits_float(CSHIM_NAN_BITS);
    }
    float value = cshim_minifloat_decode(magnitude, 3, -6);
    value = cshim_saturate(cshim_scale_by_power(value, exponent));
    return cshim_bits_float(sign | cshim_float_bits(value));
}

/* fp8_e5m2: 5 exponent and 2 mantissa bits, top 57344, Inf 0x7c, NaN 0x7e; times 2^exponent. */
CSHIM_HD uint8_t cshim_e5m2_encode(float value, int exponent)
{
    uint32_t bits = cshim_float_bits(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & ~CSHIM_SIGN_BIT;
    if (magnitude >= CSHIM_INFINITY_BITS) {
        return (uint8_t)(magnitude > CSHIM_INFINITY_BITS ? 0x7eu : sign | 0x7cu);
    }
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint8_t)(sign | cshim_minifloat_encode(scaled, 2, -14));
}

CSHIM_HD uint8_t cshim_e5m2_random(float value, int exponent, uint32_t random)
{
    float scaled = cshim_scale_by_power(value, -exponent);
    return (uint8_t)((cshim_float_bits(value) >> 24 & 0x80u) |
                     cshim_minifloat_random(scaled, 2, -14, random));
}

/* An e5m2 code is the upper half of a binary16 code. */
CSHIM_HD float cshim_e5m2_decode(uint8_t code, int exponent)
{
    return cshim_fp16_decode((uint16_t)(code << 8), exponent);
}

/* The integer formats' 16-bit scale code E << 7 | m stands for (128 + m) * 2^(E - 156). Those with
 * a normal float32 value are that value's upper half, less 22 << 7. Ordinary ones are normal and
 * small enough for 127 times them to be finite. */
#define CSHIM_INTEGER_SCALE_OFFSET (22 << 7)
#define CSHIM_INTEGER_FIRST_ORDINARY (23 << 7)
#define CSHIM_INTEGER_LAST_ORDINARY ((269 << 7) + 127)
/* 2^0, for blocks of zeros. */
#define CSHIM_INTEGER_UNIT_SCALE (149 << 7)

/* The smallest scale whose top-fold is not below the largest magnitude, as a code. shift is that
 * for which 2^24 / (top * 2^shift) lies from 256 to 511: one or the other of shift and shift + 1
 * gives a significand of 128 to 255. */
CSHIM_HD uint16_t cshim_integer_scale(uint32_t largest, uint32_t top, int shift)
{
    int exponent = (int)(largest >> 23);
    uint32_t mantissa = largest & 0x7fffffu;
    if (exponent > 0) {
        mantissa |= 0x800000u;
    } else {
        for (exponent = 1; mantissa != 0 && mantissa < 0x800000u; exponent--) {
            mantissa <<= 1;
        }
    }
    /* largest = mantissa * 2^(exponent - 150); divide by the top code, rounding up. */
    uint32_t divisor = top << shift;
    uint32_t steps = (mantissa + divisor - 1) / divisor;
    int scale_exponent = exponent + 6 + shift;
    if (steps > 255u) {
        divisor = top << (shift + 1);
        steps = (mantissa + divisor - 1) / divisor;
        scale_exponent++;
    }
    if (mantissa == 0) {
        return CSHIM_INTEGER_UNIT_SCALE;
    }
    if (scale_exponent < 0) {
        return 0;
    }
    return (uint16_t)((uint32_t)scale_exponent << 7 | (steps - 128u));
}

/* What the elements of a block are rounded with. All three are 2^64 times as large below the
 * ordinary scales and 2^-64 times above, so that they are normal floats everywhere. */
struct cshim_integer_scaling {
    float lift;    /* what elements are multiplied by: 1, 2^64 or 2^-64 */
    float step;    /* the scale, lifted */
    float inverse; /* the rounded reciprocal of step */
};

CSHIM_HD struct cshim_integer_scaling cshim_integer_scaling(uint16_t scale)
{
    int lift = scale < CSHIM_INTEGER_FIRST_ORDINARY  ? 64
               : scale > CSHIM_INTEGER_LAST_ORDINARY ? -64
                                                     : 0;
    int lifted = scale - CSHIM_INTEGER_SCALE_OFFSET + lift * 128;
    struct cshim_integer_scaling scaling;
    scaling.lift = cshim_power_of_two(lift);
    scaling.step = cshim_bits_float((uint32_t)lifted << 16);
    scaling.inverse = 1.0f / scaling.step;
    return scaling;
}

/* The integer nearest to a finite value over its scale. */
CSHIM_HD int cshim_integer_nearest(float value, struct cshim_integer_scaling scaling)
{
    const float round = 0x1.8p23f; /* its last place is 1: the sum is rounded to an integer */
    float quotient = value * scaling.lift * scaling.inverse;
    return (int)(cshim_float_bits(quotient + round) - cshim_float_bits(round));
}

/* One of the two integers around a finite value over its scale: the nearest, or the one on the
 * other side of the value with a probability of the distance. The product and the difference are
 * exact but for the difference of values that are tiny beside their scale. */
CSHIM_HD int cshim_integer_random(float value, struct cshim_integer_scaling scaling,
                                  uint32_t random)
{
    int nearest = cshim_integer_nearest(value, scaling);
    float rest = value * scaling.lift - (float)nearest * scaling.step;
    float distance = cshim_bits_float(cshim_float_bits(rest) & ~CSHIM_SIGN_BIT);
    int moves = cshim_happens(distance * scaling.inverse, random);
    int towards = 1 - 2 * (int)(cshim_float_bits(rest) >> 31);
    return nearest + towards * moves;
}

CSHIM_HD float cshim_integer_decode(int code, uint16_t scale)
{
    float value = (float)(code * (128 + (scale & 127)));
    return cshim_saturate(cshim_scale_by_power(value, (scale >> 7) - 156));
}

/* int8: codes -127 to 127, and -128 for what is not finite. */
CSHIM_HD uint16_t cshim_int8_scale(uint32_t largest)
{
    return cshim_integer_scale(largest, 127, 9);
}

CSHIM_HD int8_t cshim_int8_encode(float value, struct cshim_integer_scaling scaling)
{
    if ((cshim_float_bits(value) & ~CSHIM_SIGN_BIT) >= CSHIM_INFINITY_BITS) {
        return CSHIM_INT8_NAN;
    }
    return (int8_t)cshim_integer_nearest(value, scaling);
}

CSHIM_HD int8_t cshim_int8_random(float value, struct cshim_integer_scaling scaling,
                                  uint32_t random)
{
    return (int8_t)cshim_integer_random(value, scaling, random);
}

CSHIM_HD float cshim_int8_decode(int8_t code, uint16_t scale)
{
    return code == CSHIM_INT8_NAN ? cshim_bits_float(CSHIM_NAN_BITS)
                                  : cshim_integer_decode(code, scale);
}

/* int4: codes -7 to 7, and -8 for what is not finite, in the lower half of a byte. */
CSHIM_HD uint16_t cshim_int4_scale(uint32_t largest)
{
    return cshim_integer_scale(largest, 7, 13);
}

CSHIM_HD uint8_t cshim_int4_encode(float value, struct cshim_integer_scaling scaling)
{
    if ((cshim_float_bits(value) & ~CSHIM_SIGN_BIT) >= CSHIM_INFINITY_BITS) {
        return CSHIM_INT4_NAN;
    }
    return (uint8_t)(cshim_integer_nearest(value, scaling) & 15);
}

CSHIM_HD uint8_t cshim_int4_random(float value, struct cshim_integer_scaling scaling,
                                   uint32_t random)
{
    return (uint8_t)(cshim_integer_random(value, scaling, random) & 15);
}

CSHIM_HD float cshim_int4_decode(uint8_t code, uint16_t scale)
{
    return code == CSHIM_INT4_NAN ? cshim_bits_float(CSHIM_NAN_BITS)
                                  : cshim_integer_decode((code ^ 8) - 8, scale);
}

#endif
