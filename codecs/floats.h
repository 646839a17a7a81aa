/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of the wire formats: the bits of floats, powers of two, sums, residuals, rounding
 * to small floats, random numbers. Valid C11 and CUDA C++.
 *
 * Arithmetic is in float32 (functions named _double: float64). Each operation of a function is
 * exact or is its last one, which rounds to nearest even (cshim_scale_by_power() may round
 * subnormal results twice). So contraction to fused multiply-add within a function cannot change a
 * bit. The functions expect the default floating-point environment. */
#ifndef CSHIM_FLOATS_H
#define CSHIM_FLOATS_H

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
#define CSHIM_NAN_BITS_DOUBLE ((uint64_t)0x7ff8 << 48)

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

CSHIM_HD uint64_t cshim_double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CSHIM_HD double cshim_bits_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns 2^exponent, for -126 <= exponent <= 127 (normal floats). */
CSHIM_HD float cshim_power_of_two(int exponent)
{
    return cshim_bits_float((uint32_t)(exponent + 127) << 23);
}

/* Returns value * 2^exponent. Exponents are clamped to ±252. Multiplies twice, because the power of
 * two may be outside float32's range although the product is not. A subnormal result may be rounded
 * twice. That does not matter: encoders round subnormal results to 0 anyway, and a decoder's value
 * has so few bits that the first product is exact. */
CSHIM_HD float cshim_scale_by_power(float value, int exponent)
{
    int bounded = exponent > 252 ? 252 : exponent < -252 ? -252 : exponent;
    int half = bounded / 2;
    return value * cshim_power_of_two(half) * cshim_power_of_two(bounded - half);
}

/* Returns the bits of |value| if it is finite, else 0. The maximum over a block is its largest
 * finite magnitude. */
CSHIM_HD uint32_t cshim_finite_magnitude(float value)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    uint32_t is_finite = magnitude < CSHIM_INFINITY_BITS;
    return magnitude & (0u - is_finite);
}

/* Replaces an infinity by the largest float of its sign. For results that are infinite only if a
 * finite value has overflowed. */
CSHIM_HD float cshim_saturate(float value)
{
    uint32_t bits = cshim_float_bits(value);
    return (bits & ~CSHIM_SIGN_BIT) == CSHIM_INFINITY_BITS ? cshim_bits_float(bits - 1) : value;
}

/* Replaces any NaN by the canonical one, CSHIM_NAN_BITS. */
CSHIM_HD float cshim_canonical(float value)
{
    int is_nan = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) > CSHIM_INFINITY_BITS;
    return is_nan ? cshim_bits_float(CSHIM_NAN_BITS) : value;
}

/* Adds a value to a sum. Makes NaNs canonical, because the sign of the NaN of Inf - Inf depends on
 * the machine. */
CSHIM_HD float cshim_sum(float sum, float value)
{
    return cshim_canonical(sum + value);
}

/* Like cshim_sum(), in float64. */
CSHIM_HD double cshim_sum_double(double sum, double value)
{
    double total = sum + value;
    return total == total ? total : cshim_bits_double(CSHIM_NAN_BITS_DOUBLE);
}

/* Converts float64 to the nearest float32. A finite value stays finite; a NaN keeps its sign and
 * the upper part of its payload. */
CSHIM_HD float cshim_narrow_double(double value)
{
    uint64_t bits = cshim_double_bits(value);
    uint64_t magnitude = bits & ~((uint64_t)1 << 63);
    if (magnitude > (uint64_t)0x7ff << 52) {
        return cshim_bits_float((uint32_t)(bits >> 32 & CSHIM_SIGN_BIT) | CSHIM_NAN_BITS |
                                (uint32_t)(bits >> 29 & 0x3fffffu));
    }
    float narrow = (float)value;
    return magnitude < (uint64_t)0x7ff << 52 ? cshim_saturate(narrow) : narrow;
}

/* Converts float32 to float64, exactly. A NaN keeps its sign and payload, and becomes quiet. */
CSHIM_HD double cshim_widen_float(float value)
{
    uint32_t bits = cshim_float_bits(value);
    if ((bits & ~CSHIM_SIGN_BIT) > CSHIM_INFINITY_BITS) {
        return cshim_bits_double((uint64_t)(bits & CSHIM_SIGN_BIT) << 32 | CSHIM_NAN_BITS_DOUBLE |
                                 (uint64_t)(bits & 0x3fffffu) << 29);
    }
    return (double)value;
}

/* Error feedback: returns the sum of a value and its residual, which is encoded instead of the
 * value. The residual is clamped to ±`limit`, which must not be negative, and ignored if its
 * magnitude is above 16 times the limit (if the limit is subnormal, above about 2^-123). A finite
 * value stays finite: an overflow to infinity becomes the largest float, whose bits as an integer
 * are one less. */
CSHIM_HD float cshim_feedback_add(float value, float residual, float limit)
{
    uint32_t magnitude = cshim_float_bits(residual) & ~CSHIM_SIGN_BIT;
    uint32_t largest = cshim_float_bits(limit), sign = cshim_float_bits(residual) & CSHIM_SIGN_BIT;
    uint32_t is_near = magnitude <= largest + (4u << 23);
    uint32_t limited = (sign | (magnitude < largest ? magnitude : largest)) & (0u - is_near);
    uint32_t bits = cshim_float_bits(value + cshim_bits_float(limited));
    uint32_t is_infinite = (bits & ~CSHIM_SIGN_BIT) == CSHIM_INFINITY_BITS;
    uint32_t was_finite = (cshim_float_bits(value) & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
    return cshim_bits_float(bits - (is_infinite & was_finite));
}

/* Error feedback: returns the next residual, the difference between the sum and its decoded code; 0
 * if the difference is not finite. */
CSHIM_HD float cshim_feedback_rest(float sum, float decoded)
{
    uint32_t bits = cshim_float_bits(sum - decoded);
    uint32_t is_finite = (bits & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
    return cshim_bits_float(bits & (0u - is_finite));
}

/* Rounds a finite value to a small float of mantissa_bits whose smallest normal exponent is
 * min_exponent. Returns the code without sign; the caller has to scale the value so that it does
 * not round above the largest code. Adding a power of two whose last place is the code's last place
 * lets the adder do the rounding, for normal and subnormal codes alike. */
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

/* Finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
 * 2014, with the constants of Vigna's version). */
CSHIM_HD uint64_t cshim_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

#define CSHIM_GOLDEN 0x9e3779b97f4a7c15u

/* Returns the start of a key's random sequence. Mixes the key, so that keys may be consecutive. */
CSHIM_HD uint64_t cshim_random_stream(uint64_t key)
{
    return cshim_mix(key + CSHIM_GOLDEN);
}

/* Returns the 64 random bits of elements 2 * pair (lower half) and 2 * pair + 1: number `pair` of
 * splitmix64's sequence. */
CSHIM_HD uint64_t cshim_random_pair(uint64_t stream, uint64_t pair)
{
    return cshim_mix(stream + (pair + 1) * CSHIM_GOLDEN);
}

/* Returns 1 with the given probability, else 0. The probability must be below 1, and is rounded
 * down to a multiple of 2^-31. The bits of `random` are uniformly distributed. */
CSHIM_HD int cshim_happens(float probability, uint32_t random)
{
    return (int32_t)(random >> 1) < (int32_t)(probability * 0x1p31f);
}

/* Like cshim_minifloat_encode(), but rounds up or down at random, so that the mean is the value (up
 * to 2^-31 of the code's last place). The value in units of the code's last place, and its
 * fraction, are computed exactly. */
CSHIM_HD uint32_t cshim_minifloat_random(float value, int mantissa_bits, int min_exponent,
                                         uint32_t random)
{
    uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
    uint32_t smallest = (uint32_t)(127 + min_exponent) << 23;
    uint32_t exponent = magnitude & CSHIM_INFINITY_BITS;
    uint32_t binade = exponent > smallest ? exponent : smallest;
    uint32_t inverse_step = ((uint32_t)(254 + mantissa_bits) << 23) - binade;
    float steps = cshim_bits_float(magnitude) * cshim_bits_float(inverse_step);
    int32_t below = (int32_t)steps;
    int32_t rounded = below + cshim_happens(steps - (float)below, random);
    return (uint32_t)rounded + ((binade - smallest) >> (23 - mantissa_bits));
}

/* Returns the exact value of a code without sign whose exponent is not reserved. */
CSHIM_HD float cshim_minifloat_decode(uint32_t code, int mantissa_bits, int min_exponent)
{
    uint32_t exponent = code >> mantissa_bits;
    uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    if (exponent == 0)
        return (float)mantissa * cshim_power_of_two(min_exponent - mantissa_bits);
    return cshim_bits_float(((exponent + (uint32_t)(126 + min_exponent)) << 23) |
                            (mantissa << (23 - mantissa_bits)));
}

#endif
