/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs as types, for the eight elements of a lane: the fast way of each for ordinary blocks,
 * inlined. The rest goes element by element (codecs.cuh).
 */
#ifndef CSHIM_FORMATS_CUH
#define CSHIM_FORMATS_CUH

#include "kernels/values.cuh"

/* Not inlined, because the division is long. */
CSHIM_RARE struct cshim_integer_scaling scaling_of(uint16_t scale)
{
    return cshim_integer_scaling(scale);
}

template <int ID> struct format;

template <int ID, int ID_BITS, int ID_BLOCK, int ID_SCALE_BYTES> struct layout {
    static const uint32_t CODEC = ID;
    static const int BITS = ID_BITS;
    static const int BLOCK = ID_BLOCK;
    static const int SCALE_BYTES = ID_SCALE_BYTES;
    static const int WORDS = ID_BITS / 4;       /* of a lane's codes */
    static const bool IS_EXACT = ID_BITS == 32; /* any float, NaNs with their payload */
    /* A word of codes that leave every sum as it is: -0, or 0 where there is no -0. */
    static const uint32_t NOTHING = ID_SCALE_BYTES == 2 ? 0
                                    : ID_BITS == 8      ? 0x80808080u
                                    : ID_BITS == 16     ? 0x80008000u
                                                        : 0x80000000u;
};

/* A format with a power-of-two scale. */
template <int ID, int ID_BITS, int ID_BLOCK, int MAX_EXPONENT, int MIN_SCALE, unsigned BUMP,
          unsigned RANDOM_BUMP>
struct power_layout : layout<ID, ID_BITS, ID_BLOCK, 1> {
    typedef int scale; /* the exponent */
    static const uint32_t UNIT = -MIN_SCALE;

    CSHIM_DEVICE scale choose(uint32_t largest, bool at_random)
    {
        return cshim_scale_exponent(largest, at_random ? RANDOM_BUMP : BUMP, MAX_EXPONENT,
                                    MIN_SCALE);
    }
    CSHIM_DEVICE uint32_t store(scale exponent)
    {
        return (uint32_t)(exponent - MIN_SCALE);
    }
    CSHIM_DEVICE scale load(uint32_t stored)
    {
        return (int)stored + MIN_SCALE;
    }
    /* Whether values are the codes' values times one normal float, and that is exact. */
    CSHIM_DEVICE bool is_ordinary(scale exponent)
    {
        return exponent >= -126 && exponent + MAX_EXPONENT <= 127;
    }
};

/* Multiplies by 2^-exponent as cshim_scale_by_power. */
CSHIM_DEVICE void unscale(const float *value, int exponent, float *scaled)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        scaled[i] = cshim_scale_by_power(value[i], -exponent);
}

/* sum + code * scale. The product is exact, so that it makes no difference that the two are done in
 * one step. */
CSHIM_DEVICE float put(float code, float scale, float sum)
{
    return __fmaf_rn(code, scale, sum);
}

template <>
struct format<CSHIM_CODEC_FP16>
    : power_layout<CSHIM_CODEC_FP16, 16, CSHIM_FP16_BLOCK, CSHIM_FP16_MAX_EXPONENT,
                   CSHIM_FP16_MIN_SCALE, CSHIM_FP16_BUMP, CSHIM_FP16_RANDOM_BUMP> {
    CSHIM_DEVICE void encode_fast(const float *value, scale exponent, uint32_t *codes)
    {
        float scaled[LANE_ELEMENTS];
        unscale(value, exponent, scaled);
#pragma unroll
        for (int i = 0; i < 4; i++)
            codes[i] = halves_of(scaled[2 * i], scaled[2 * i + 1]);
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *, scale exponent)
    {
        return is_ordinary(exponent);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale exponent, float *sum)
    {
        const float factor = cshim_power_of_two(exponent);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float first, second;
            floats_of_halves(codes[i], &first, &second);
            sum[2 * i] = put(first, factor, sum[2 * i]);
            sum[2 * i + 1] = put(second, factor, sum[2 * i + 1]);
        }
    }
};

template <>
struct format<CSHIM_CODEC_FP8_E4M3>
    : power_layout<CSHIM_CODEC_FP8_E4M3, 8, CSHIM_E4M3_BLOCK, CSHIM_E4M3_MAX_EXPONENT,
                   CSHIM_E4M3_MIN_SCALE, CSHIM_E4M3_BUMP, CSHIM_E4M3_RANDOM_BUMP> {
    CSHIM_DEVICE void encode_fast(const float *value, scale exponent, uint32_t *codes)
    {
        float scaled[LANE_ELEMENTS];
        unscale(value, exponent, scaled);
#pragma unroll
        for (int i = 0; i < 2; i++)
            codes[i] = e4m3_pair(scaled[4 * i], scaled[4 * i + 1]) |
                       e4m3_pair(scaled[4 * i + 2], scaled[4 * i + 3]) << 16;
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, scale exponent)
    {
        return is_ordinary(exponent) && !has_e4m3_nan(codes[0]) && !has_e4m3_nan(codes[1]);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale exponent, float *sum)
    {
        const float factor = cshim_power_of_two(exponent + E4M3_HALVES_EXPONENT);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float first, second;
            floats_of_halves(halves_of_e4m3(codes[i / 2] >> i % 2 * 16), &first, &second);
            sum[2 * i] = put(first, factor, sum[2 * i]);
            sum[2 * i + 1] = put(second, factor, sum[2 * i + 1]);
        }
    }
};

template <>
struct format<CSHIM_CODEC_FP8_E5M2>
    : power_layout<CSHIM_CODEC_FP8_E5M2, 8, CSHIM_E5M2_BLOCK, CSHIM_E5M2_MAX_EXPONENT,
                   CSHIM_E5M2_MIN_SCALE, CSHIM_E5M2_BUMP, CSHIM_E5M2_RANDOM_BUMP> {
    CSHIM_DEVICE void encode_fast(const float *value, scale exponent, uint32_t *codes)
    {
        float scaled[LANE_ELEMENTS];
        unscale(value, exponent, scaled);
#pragma unroll
        for (int i = 0; i < 2; i++)
            codes[i] = e5m2_pair(scaled[4 * i], scaled[4 * i + 1]) |
                       e5m2_pair(scaled[4 * i + 2], scaled[4 * i + 3]) << 16;
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *, scale exponent)
    {
        return is_ordinary(exponent);
    }
    /* An e5m2 code is the upper byte of a binary16. */
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale exponent, float *sum)
    {
        const float factor = cshim_power_of_two(exponent);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float first, second;
            floats_of_halves(__byte_perm(codes[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424), &first,
                             &second);
            sum[2 * i] = put(first, factor, sum[2 * i]);
            sum[2 * i + 1] = put(second, factor, sum[2 * i + 1]);
        }
    }
};

CSHIM_RARE uint16_t integer_scale_of(uint32_t largest, bool is_int4)
{
    return is_int4 ? cshim_int4_scale(largest) : cshim_int8_scale(largest);
}

/* A format of integers with a 16-bit scale. */
template <int ID, int ID_BITS, int ID_BLOCK>
struct integer_layout : layout<ID, ID_BITS, ID_BLOCK, 2> {
    typedef uint16_t scale;
    static const uint32_t UNIT = CSHIM_INTEGER_UNIT_SCALE;
    CSHIM_DEVICE uint32_t store(scale code)
    {
        return code;
    }
    CSHIM_DEVICE scale load(uint32_t stored)
    {
        return (scale)stored;
    }
    CSHIM_DEVICE bool is_ordinary(scale code)
    {
        return code >= CSHIM_INTEGER_FIRST_ORDINARY && code <= CSHIM_INTEGER_LAST_ORDINARY;
    }
    CSHIM_DEVICE float step(scale code)
    {
        return cshim_bits_float((uint32_t)(code - CSHIM_INTEGER_SCALE_OFFSET) << 16);
    }
};

template <>
struct format<CSHIM_CODEC_INT8> : integer_layout<CSHIM_CODEC_INT8, 8, CSHIM_INT8_BLOCK> {
    CSHIM_DEVICE scale choose(uint32_t largest, bool)
    {
        return integer_scale_of(largest, false);
    }
    CSHIM_DEVICE void encode_fast(const float *value, scale code, uint32_t *codes)
    {
        const struct cshim_integer_scaling scaling = scaling_of(code);
        codes[0] = codes[1] = 0;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            codes[i / 4] |= ((uint32_t)cshim_integer_nearest(value[i], scaling) & 255u)
                            << i % 4 * 8;
    }
    /* No byte is -128, the code of what is not finite: turned round, none is zero. */
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, scale code)
    {
        const uint32_t first = codes[0] ^ 0x80808080u, second = codes[1] ^ 0x80808080u;
        const uint32_t zero = ((first - 0x01010101u) & ~first) | ((second - 0x01010101u) & ~second);
        return is_ordinary(code) && (zero & 0x80808080u) == 0;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale code, float *sum)
    {
        const float factor = step(code);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const float value = byte_above_2_23(codes[i / 4] ^ 0x80808080u, i % 4) - 0x1.0001p23f;
            sum[i] = put(value, factor, sum[i]);
        }
    }
};

template <>
struct format<CSHIM_CODEC_INT4> : integer_layout<CSHIM_CODEC_INT4, 4, CSHIM_INT4_BLOCK> {
    CSHIM_DEVICE scale choose(uint32_t largest, bool)
    {
        return integer_scale_of(largest, true);
    }
    CSHIM_DEVICE void encode_fast(const float *value, scale code, uint32_t *codes)
    {
        const struct cshim_integer_scaling scaling = scaling_of(code);
        codes[0] = 0;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            codes[0] |= ((uint32_t)cshim_integer_nearest(value[i], scaling) & 15u) << i * 4;
    }
    /* No nibble is -8. */
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, scale code)
    {
        const uint32_t turned = codes[0] ^ 0x88888888u;
        const uint32_t bits = turned | turned >> 1 | turned >> 2 | turned >> 3;
        return is_ordinary(code) && (bits & 0x11111111u) == 0x11111111u;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale code, float *sum)
    {
        const float factor = step(code);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const float value = nibble_above_2_23(codes[0] ^ 0x88888888u, i) - 0x1.00001p23f;
            sum[i] = put(value, factor, sum[i]);
        }
    }
};

/* The formats without scales. */
struct no_scale {
    typedef int scale;
    static const uint32_t UNIT = 0;
    CSHIM_DEVICE scale choose(uint32_t, bool)
    {
        return 0;
    }
    CSHIM_DEVICE uint32_t store(scale)
    {
        return 0;
    }
    CSHIM_DEVICE scale load(uint32_t)
    {
        return 0;
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *, scale)
    {
        return true;
    }
};

template <> struct format<CSHIM_CODEC_BF16> : layout<CSHIM_CODEC_BF16, 16, 1, 0>, no_scale {
    CSHIM_DEVICE void encode_fast(const float *value, scale, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            codes[i] = cshim_bf16_encode(value[2 * i]) |
                       (uint32_t)cshim_bf16_encode(value[2 * i + 1]) << 16;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const uint32_t code = i % 2 == 0 ? codes[i / 2] << 16 : codes[i / 2] & 0xffff0000u;
            sum[i] = sum[i] + cshim_bits_float(code);
        }
    }
};

template <> struct format<CSHIM_CODEC_FP32> : layout<CSHIM_CODEC_FP32, 32, 1, 0>, no_scale {
    CSHIM_DEVICE void encode_fast(const float *value, scale, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            codes[i] = cshim_float_bits(value[i]);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] = sum[i] + cshim_bits_float(codes[i]);
    }
};

/* The elements of a buffer of float16 as a message of the codec raw has them. */
struct raw_half : format<CSHIM_CODEC_FP16> {
    static const int SCALE_BYTES = 0;
};

/* The largest magnitude's bits in each lane's block, of what is given for the lanes. */
template <int BLOCK> CSHIM_DEVICE uint32_t block_largest(uint32_t largest)
{
#pragma unroll
    for (int distance = BLOCK / LANE_ELEMENTS / 2; distance > 0; distance /= 2)
        largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
    return largest;
}

/* The largest magnitude of the lane's values, as bits; of infinities or more if not all are finite.
 */
CSHIM_DEVICE uint32_t lane_largest(const float *value)
{
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_float_bits(value[i]) & ~CSHIM_SIGN_BIT);
    return largest;
}

#endif
