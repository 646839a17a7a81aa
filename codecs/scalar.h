/* SPDX-License-Identifier: Apache-2.0 */
/* Every conversion of every wire format, defined once, for the CPU reference, the tests' claim that
 * the SIMD versions are right, and the GPU kernels. Valid C11 and CUDA C++.
 *
 * All arithmetic is float32 and either exact or rounded once (nearest even) where the result is
 * chosen, so that contraction to fused multiply-add could not change a bit. Expects the default
 * floating-point environment. docs/wire-format.md gives the formulas in prose.
 */
#ifndef CSHIM_SCALAR_H
#define CSHIM_SCALAR_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define CSHIM_HD static __host__ __device__ __forceinline__
#else
#define CSHIM_HD static inline
#endif

#define CSHIM_SIGN_BIT 0x80000000u
#define CSHIM_INFINITY_BITS 0x7f800000u
#define CSHIM_NAN_BITS 0x7fc00000u

/* Block sizes, largest exponents, smallest scale exponents, and what is added to the bits of the
 * largest magnitude so that one that would round above the top code takes the next exponent. */
#define CSHIM_FP16_BLOCK 256
#define CSHIM_FP16_MAX_EXPONENT 15
#define CSHIM_FP16_MIN_SCALE (-125)
#define CSHIM_FP16_BUMP 0x1000u

#define CSHIM_E4M3_BLOCK 128
#define CSHIM_E4M3_MAX_EXPONENT 8
#define CSHIM_E4M3_MIN_SCALE (-135)
#define CSHIM_E4M3_BUMP 0x17ffffu

#define CSHIM_E5M2_BLOCK 128
#define CSHIM_E5M2_MAX_EXPONENT 15
#define CSHIM_E5M2_MIN_SCALE (-133)
#define CSHIM_E5M2_BUMP 0x100000u

#define CSHIM_INT8_BLOCK 64
#define CSHIM_INT8_NAN (-128)

CSHIM_HD uint32_t cshim_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CSHIM_HD float cshim_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 2^exponent, for exponents of normal floats: -126 to 127. */
CSHIM_HD float cshim_power_of_two(int exponent)
{
    return cshim_bits_float((uint32_t)(exponent + 127) << 23);
}

/* value * 2^exponent with one rounding at most, for |exponent| <= 252 (beyond that, as for 252).
 * Two steps, because one power of two may be outside float32 where the product is not. */
CSHIM_HD float cshim_scale_by_power(float value, int exponent)
{
    int bounded = exponent > 252 ? 252 : exponent < -252 ? -252 : exponent;
    int half = bounded / 2;
    return value * cshim_power_of_two(half) * cshim_power_of_two(bounded - half);
}

/* Bits of |value| if it is finite, else 0: what a block's largest magnitude is taken over. */
CSHIM_HD uint32_t cshim_finite_magnitude(float value)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    return magnitude < CSHIM_INFINITY_BITS ? magnitude : 0;
}

/* Infinity, which only overflow of a finite value can have made, becomes the largest float. */
CSHIM_HD float cshim_saturate(float value)
{
    uint32_t bits = cshim_float_bits(value);
    return (bits & ~CSHIM_SIGN_BIT) == CSHIM_INFINITY_BITS ? cshim_bits_float(bits - 1) : value;
}

/* Any NaN becomes the one NaN that decoders and sums give. */
CSHIM_HD float cshim_canonical(float value)
{
    int is_nan = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) > CSHIM_INFINITY_BITS;
    return is_nan ? cshim_bits_float(CSHIM_NAN_BITS) : value;
}

/* One step of a reduction. Inf - Inf has a sign that depends on the machine, hence canonical. */
CSHIM_HD float cshim_sum(float sum, float value)
{
    return cshim_canonical(sum + value);
}

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

/* Rounds a finite value to a small float of mantissa_bits whose smallest normal exponent is
 * min_exponent. Returns the code without sign. Adding a power of two whose last place is the code's
 * last place lets the adder do the rounding, for normal and subnormal codes alike. */
CSHIM_HD uint32_t cshim_minifloat_encode(float value, int mantissa_bits, int min_exponent)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    uint32_t smallest = (uint32_t)(127 + min_exponent) << 23;
    uint32_t exponent = magnitude & CSHIM_INFINITY_BITS;
    uint32_t binade = exponent > smallest ? exponent : smallest;
    uint32_t anchor = binade + ((uint32_t)(23 - mantissa_bits) << 23);
    float rounded = cshim_bits_float(magnitude) + cshim_bits_float(anchor);
    return cshim_float_bits(rounded) - anchor + ((binade - smallest) >> (23 - mantissa_bits));
}

/* The value of a code without sign whose exponent is not reserved. Exact. */
CSHIM_HD float cshim_minifloat_decode(uint32_t code, int mantissa_bits, int min_exponent)
{
    uint32_t exponent = code >> mantissa_bits;
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    if (exponent == 0) {
        return (float)mantissa * cshim_power_of_two(min_exponent - mantissa_bits);
    }
    return cshim_bits_float(((exponent + (uint32_t)(126 + min_exponent)) << 23) |
                            (mantissa << (23 - mantissa_bits)));
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

/* An e5m2 code is the upper half of a binary16 code. */
CSHIM_HD float cshim_e5m2_decode(uint8_t code, int exponent)
{
    return cshim_fp16_decode((uint16_t)(code << 8), exponent);
}

/* int8: the 16-bit scale code E << 7 | m stands for (128 + m) * 2^(E - 156). Those with a normal
 * float32 value are that value's upper half, less 22 << 7; these have E >= 23. */
#define CSHIM_INT8_SCALE_OFFSET (22 << 7)
#define CSHIM_INT8_NORMAL_SCALE (23 << 7)
/* 2^0, for blocks of zeros. */
#define CSHIM_INT8_UNIT_SCALE (149 << 7)

/* The smallest scale whose 127-fold is not below the largest magnitude, as a code. */
CSHIM_HD uint16_t cshim_int8_scale(uint32_t largest)
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
    /* largest = mantissa * 2^(exponent - 150); divide by 127 * 2^9 or 127 * 2^10, rounding up. */
    uint32_t steps = (mantissa + 65023u) / 65024u;
    int scale_exponent = exponent + 15;
    if (steps > 255u) {
        steps = (mantissa + 130047u) / 130048u;
        scale_exponent++;
    }
    if (mantissa == 0) {
        return CSHIM_INT8_UNIT_SCALE;
    }
    if (scale_exponent < 0) {
        return 0;
    }
    return (uint16_t)((uint32_t)scale_exponent << 7 | (steps - 128u));
}

/* What the elements of a block are multiplied by before they are rounded: the rounded reciprocal of
 * the scale. Below the normal scales both value and scale are taken times 2^64. */
CSHIM_HD float cshim_int8_inverse(uint16_t scale)
{
    int lift = scale < CSHIM_INT8_NORMAL_SCALE ? 64 << 7 : 0;
    return 1.0f / cshim_bits_float((uint32_t)(scale - CSHIM_INT8_SCALE_OFFSET + lift) << 16);
}

CSHIM_HD int8_t cshim_int8_encode(float value, uint16_t scale, float inverse)
{
    const float round = 0x1.8p23f; /* its last place is 1: the sum is rounded to an integer */
    if ((cshim_float_bits(value) & ~CSHIM_SIGN_BIT) >= CSHIM_INFINITY_BITS) {
        return CSHIM_INT8_NAN;
    }
    float lifted = scale < CSHIM_INT8_NORMAL_SCALE ? value * 0x1p64f : value;
    float quotient = lifted * inverse;
    return (int8_t)(cshim_float_bits(quotient + round) - cshim_float_bits(round));
}

CSHIM_HD float cshim_int8_decode(int8_t code, uint16_t scale)
{
    if (code == CSHIM_INT8_NAN) {
        return cshim_bits_float(CSHIM_NAN_BITS);
    }
    float value = (float)((int)code * (128 + (scale & 127)));
    return cshim_saturate(cshim_scale_by_power(value, (scale >> 7) - 156));
}

#endif
