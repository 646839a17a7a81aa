/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between the elements of a caller's buffer and the float32 values that are encoded and
 * summed, and the conversions for which the hardware has instructions. */
#ifndef CSHIM_VALUES_CUH
#define CSHIM_VALUES_CUH

#include "kernels/memory.cuh"

/* Conversions by hardware ---------------------------------------------------------------------- */
/* Functions that convert pairs of elements hold a pair in one word, the first element in the lower
 * half. For finite values with a finite code, and for codes, they give the results of
 * codecs/scalar.h, except for the power of two of halves_exponent() and the NaNs of hidden_nans();
 * a NaN may get any payload. On a host, conversions of binary16 call scalar.h. */
#if defined(__CUDA_ARCH__)
#define HAS_HALF_PAIRS (__CUDA_ARCH__ >= 800)
#define HAS_FP8 (__CUDA_ARCH__ >= 890)
/* Above compute capability 10.0 the encoding spills registers with max.NaN (lane_largest). */
#define HAS_NAN_MAXIMUM (__CUDA_ARCH__ >= 800 && __CUDA_ARCH__ <= 1000)
#else
#define HAS_HALF_PAIRS 0
#define HAS_FP8 0
#define HAS_NAN_MAXIMUM 0
#endif

/* Converts two floats to binary16. Infinities are allowed; values that are too large become
 * infinite. */
CSHIM_DEVICE uint32_t halves_of(float first, float second)
{
#if HAS_HALF_PAIRS
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#elif defined(__CUDA_ARCH__)
    uint16_t low, high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
    return low | (uint32_t)high << 16;
#else
    return cshim_half_from_float(first) | (uint32_t)cshim_half_from_float(second) << 16;
#endif
}

/* The smallest magnitude, as bits, that rounds to bfloat16's infinity. */
#define BF16_TOO_LARGE 0x7f7f8000u

/* Converts two floats below BF16_TOO_LARGE to bfloat16. */
CSHIM_DEVICE uint32_t upper_halves_of(float first, float second)
{
    const uint32_t low = cshim_float_bits(first), high = cshim_float_bits(second);
    return __byte_perm(low + 0x7fffu + (low >> 16 & 1), high + 0x7fffu + (high >> 16 & 1), 0x7632);
}

CSHIM_DEVICE void floats_of_halves(uint32_t pair, float *first, float *second)
{
#if defined(__CUDA_ARCH__)
    asm("cvt.f32.f16 %0, %1;" : "=f"(*first) : "h"((uint16_t)pair));
    asm("cvt.f32.f16 %0, %1;" : "=f"(*second) : "h"((uint16_t)(pair >> 16)));
#else
    *first = cshim_fp16_decode((uint16_t)pair, 0);
    *second = cshim_fp16_decode((uint16_t)(pair >> 16), 0);
#endif
}

/* Returns true if a format has small floats with these numbers of bits, whatever its scales are. */
CSHIM_CONSTANT bool is_float(struct cshim_format format, int bits, int mantissa_bits)
{
    return format.family == CSHIM_FAMILY_FLOAT && format.bits == bits &&
           format.mantissa_bits == mantissa_bits;
}

template <int ID> CSHIM_CONSTANT bool is_half()
{
    return is_float(cshim_format(ID), 16, 10);
}

template <int ID> CSHIM_CONSTANT bool is_e4m3()
{
    return is_float(cshim_format(ID), 8, 3);
}

template <int ID> CSHIM_CONSTANT bool is_e5m2()
{
    return is_float(cshim_format(ID), 8, 2);
}

template <int ID> CSHIM_CONSTANT bool is_e2m1()
{
    return is_float(cshim_format(ID), 4, 1);
}

/* Returns the exponent of the power of two by which values from halves_of_codes have to be
 * multiplied. halves_of_codes only shifts the magnitude bits of some codes, and so returns a
 * binary16 number that is 2^-14 times the value for e2m1, and 2^-8 times the value for e4m3 on
 * devices without an instruction that converts e4m3. */
template <int ID> CSHIM_CONSTANT int halves_exponent()
{
    return is_e2m1<ID>() ? 14 : is_e4m3<ID>() && !HAS_FP8 ? 8 : 0;
}

/* Rounds a value to a float with `mantissa_bits` mantissa bits and a least normal exponent of -14.
 * Adding an anchor, whose last place is the result's last place, makes the adder round. */
CSHIM_DEVICE float rounded_to(int mantissa_bits, float value)
{
    const uint32_t bits = cshim_float_bits(value), least = (127u - 14) << 23;
    const uint32_t binade = max(bits & CSHIM_INFINITY_BITS, least);
    const float anchor =
        cshim_bits_float(binade + ((uint32_t)(23 - mantissa_bits) << 23) + 0x400000u);
    return cshim_bits_float(cshim_float_bits(value + anchor - anchor) | (bits & CSHIM_SIGN_BIT));
}

/* Returns the e2m1 codes of four values in the lower half of a word. `factor` divides them by their
 * scale and by 2^halves_exponent. */
CSHIM_DEVICE uint32_t e2m1_codes_of(const float *value, float factor)
{
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t pair =
            halves_of(rounded_to(1, value[i] * factor), rounded_to(1, value[i + 1] * factor));
        const uint32_t magnitudes = pair >> 9 & 0x00070007u;
        /* Code 0 gets no sign. */
        const uint32_t two = magnitudes | (pair >> 12 & (magnitudes + 0x00070007u) & 0x00080008u);
        codes |= ((two | two >> 12) & 0xffu) << 4 * i;
    }
    return codes;
}

/* Returns the codes of four values. `factor` divides them by their scale and by 2^halves_exponent.
 */
template <int ID> CSHIM_DEVICE void codes_of(const float *value, float factor, uint32_t *codes)
{
    uint32_t pairs[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float first = value[2 * i] * factor, second = value[2 * i + 1] * factor;
#if HAS_FP8
        uint16_t pair = 0;
        if (is_e4m3<ID>())
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
        else if (is_e5m2<ID>())
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
        pairs[i] = is_half<ID>() ? halves_of(first, second) : pair;
#else
        if (!is_half<ID>()) {
            first = rounded_to(cshim_format(ID).mantissa_bits, first);
            second = rounded_to(cshim_format(ID).mantissa_bits, second);
        }
        pairs[i] = halves_of(first, second);
        if (is_e4m3<ID>())
            pairs[i] = (pairs[i] & 0x80008000u) | (pairs[i] << 1 & 0x7f007f00u);
#endif
    }
    codes[0] =
        is_half<ID>() ? pairs[0] : __byte_perm(pairs[0], pairs[1], HAS_FP8 ? 0x5410 : 0x7531);
    if (is_half<ID>())
        codes[1] = pairs[1];
}

/* Returns codes 2 * i and 2 * i + 1 as binary16. An e5m2 code is the upper byte of a binary16
 * number. */
template <int ID> CSHIM_DEVICE uint32_t halves_of_codes(const uint32_t *codes, int i)
{
    if (is_half<ID>())
        return codes[i];
    if (is_e2m1<ID>()) {
        const uint32_t both = codes[0] >> 8 * i, pair = (both & 0xfu) | (both << 12 & 0xf0000u);
        return (pair & 0x00070007u) << 9 | (pair & 0x00080008u) << 12;
    }
#if HAS_FP8
    if (is_e4m3<ID>()) {
        uint32_t pair;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
            : "=r"(pair)
            : "h"((uint16_t)(codes[i / 2] >> i % 2 * 16)));
        return pair;
    }
#endif
    const uint32_t upper = __byte_perm(codes[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424);
    return is_e4m3<ID>() ? (upper >> 1 & 0x3f803f80u) | (upper & 0x80008000u) : upper;
}

/* Returns a word in which the highest bit of each code's field is set if the code is a NaN that
 * halves_of_codes reads as a number. The other bits of a field are arbitrary. In e2m1, whose only
 * such code is that of -0, the highest bits of the fields after it may be set, too. */
template <int ID> CSHIM_DEVICE uint32_t hidden_nans(uint32_t codes)
{
    const uint32_t turned = codes ^ 0x88888888u;
    return is_e2m1<ID>()               ? (turned - 0x11111111u) & ~turned
           : is_e4m3<ID>() && !HAS_FP8 ? (codes & 0x7f7f7f7fu) + 0x01010101u
                                       : 0;
}

/* Returns the float 2^23 + byte for a byte (0 to 3) of a word. Takes one instruction. */
CSHIM_DEVICE float byte_above_2_23(uint32_t word, int byte)
{
    return cshim_bits_float(__byte_perm(word, 0x4b000000u, 0x7440u + (unsigned)byte));
}

/* Returns (word & mask) | bits by one instruction. With two constants a compiler would use two. */
CSHIM_DEVICE uint32_t put_under(uint32_t word, uint32_t mask, uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
    return result;
#else
    return (word & mask) | bits;
#endif
}

/* Elements and values -------------------------------------------------------------------------- */
/* A factor of elements or sums, which is converted to their type before it is used. */
struct factor {
    double value;
    bool is_one;
};

/* Reads an element of a type other than float64. */
CSHIM_DEVICE float read_float(uint32_t dtype, const void *at)
{
    return dtype == CSHIM_FLOAT32   ? *(const float *)at
           : dtype == CSHIM_FLOAT16 ? cshim_fp16_decode(*(const uint16_t *)at, 0)
                                    : cshim_bf16_decode(*(const uint16_t *)at);
}

CSHIM_DEVICE struct factor read_factor(double value, const void *at, uint32_t dtype)
{
    const double read = at == NULL               ? value
                        : dtype == CSHIM_FLOAT64 ? *(const double *)at
                                                 : cshim_widen_float(read_float(dtype, at));
    return {read, read == 1.0};
}

/* Multiplies, unless the factor is 1. A product that is NaN becomes the canonical NaN. */
CSHIM_DEVICE float multiply(float value, struct factor factor)
{
    return factor.is_one ? value : cshim_canonical(value * (float)factor.value);
}

CSHIM_DEVICE double multiply_double(double value, struct factor factor)
{
    /* Adding -0 makes a NaN canonical and changes nothing else. */
    return factor.is_one ? value : cshim_sum_double(value * factor.value, -0.0);
}

/* Returns the largest magnitude of a lane's values, as bits; above CSHIM_INFINITY_BITS if one is
 * NaN. */
CSHIM_DEVICE uint32_t lane_largest(const struct lane_values &values)
{
#if HAS_NAN_MAXIMUM
    float largest[LANE_ELEMENTS];
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest[i] = fabsf(values.value[i]);
#pragma unroll
    for (int n = LANE_ELEMENTS / 2; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; i++)
            asm("max.NaN.f32 %0, %0, %1;" : "+f"(largest[i]) : "f"(largest[i + n]));
    return cshim_float_bits(largest[0]);
#else
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_float_bits(values.value[i]) & ~CSHIM_SIGN_BIT);
    return largest;
#endif
}

/* Makes NaNs canonical. Returns the largest magnitude, as lane_largest does. */
CSHIM_DEVICE uint32_t make_canonical(struct lane_values &values)
{
    const uint32_t largest = lane_largest(values);
    if (largest > CSHIM_INFINITY_BITS) {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values.value[i] = values.value[i] == values.value[i] ? values.value[i]
                                                                 : cshim_bits_float(CSHIM_NAN_BITS);
    }
    return largest;
}

/* Multiplies all values, unless the factor is 1. Products that are NaN become canonical. */
CSHIM_DEVICE void multiply_all(struct lane_values &values, struct factor factor)
{
    if (factor.is_one)
        return;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values.value[i] *= (float)factor.value;
    make_canonical(values);
}

/* Sets all but the first `valid` values to zero, because an encoding is padded with zeros. */
CSHIM_DEVICE void zero_invalid(struct lane_values &values, int valid)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values.value[i] = i < valid ? values.value[i] : 0.0f;
}

/* Loads elements of any type and number, whether aligned to 16 bytes or not, and multiplies them.
 * Elements that are not valid become 0. */
CSHIM_RARE void load_values_singly(uint32_t dtype, const uint8_t *address, int valid,
                                   struct factor factor, struct lane_values *values)
{
    const unsigned bytes = element_bytes(dtype);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const uint8_t *at = address + bytes * i;
        float value = 0.0f;
        if (i < valid && dtype == CSHIM_FLOAT64)
            value = cshim_narrow_double(multiply_double(*(const double *)at, factor));
        else if (i < valid)
            value = multiply(read_float(dtype, at), factor);
        values->value[i] = value;
    }
}

/* Loads elements and multiplies them. Elements that are not valid become 0. A NaN of a 16-bit type
 * may get any payload. */
CSHIM_DEVICE void load_values(uint32_t dtype, const struct place &place, struct factor factor,
                              struct lane_values &values)
{
    if (!place.is_plain || dtype == CSHIM_FLOAT64) {
        struct lane_values loaded;
        load_values_singly(dtype, place.address, place.valid, factor, &loaded);
        values = loaded;
        return;
    }
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
        load_units<2>(place.address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values.value[i] = cshim_bits_float(words[i]);
    } else {
        load_units<1>(place.address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i += 2) {
            const uint32_t pair = words[i / 2];
            values.value[i] = cshim_bits_float(pair << 16);
            values.value[i + 1] = cshim_bits_float(pair & 0xffff0000u);
            if (dtype == CSHIM_FLOAT16)
                floats_of_halves(pair, &values.value[i], &values.value[i + 1]);
        }
    }
    multiply_all(values, factor);
}

/* Rounds values to elements and stores them. Supports float64 only with DOUBLES. */
template <bool DOUBLES>
CSHIM_RARE void store_values_singly(uint32_t dtype, uint8_t *address, int valid,
                                    const struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++) {
        const float value = values->value[i];
        if (DOUBLES && dtype == CSHIM_FLOAT64)
            ((double *)address)[i] = cshim_widen_float(value);
        else if (dtype == CSHIM_FLOAT32)
            ((float *)address)[i] = value;
        else
            ((uint16_t *)address)[i] =
                dtype == CSHIM_FLOAT16 ? cshim_half_from_float(value) : cshim_bf16_encode(value);
    }
}

/* Rounds values to elements of a type other than float64 and stores them 16 bytes at a time. Values
 * for 16-bit types have to be below BF16_TOO_LARGE in magnitude. NaNs of float32 are stored as they
 * are. */
CSHIM_DEVICE void store_plain(uint32_t dtype, uint8_t *address, const struct lane_values &values)
{
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            words[i] = cshim_float_bits(values.value[i]);
        store_units<2>(address, words);
        return;
    }
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i += 2) {
        const float first = values.value[i], second = values.value[i + 1];
        words[i / 2] =
            dtype == CSHIM_FLOAT16 ? halves_of(first, second) : upper_halves_of(first, second);
    }
    store_units<1>(address, words);
}

/* Rounds values to elements of a type other than float64 and stores them. `largest` is their
 * largest magnitude, as bits. NaNs of float32 are stored as they are. */
CSHIM_DEVICE void store_values(uint32_t dtype, const struct place &place,
                               const struct lane_values &values, uint32_t largest)
{
    if (!place.is_plain || (dtype != CSHIM_FLOAT32 && largest >= BF16_TOO_LARGE)) {
        const struct lane_values stored = values;
        store_values_singly<false>(dtype, place.address, place.valid, &stored);
    } else {
        store_plain(dtype, place.address, values);
    }
}

#endif
