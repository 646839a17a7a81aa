/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs as types, for the eight elements of a lane: the fast way of each for ordinary blocks,
 * inlined. The rest goes element by element (codecs.cuh).
 *
 * Every row of codecs/formats.def is a type format<ID> by its family; a specialisation may bring a
 * faster way. A type has:
 *   encode_fast(values, scale, codes)   codes of finite values
 *   is_fast(codes, scale)               whether the next may be called
 *   add_fast(codes, scale, sum)         sum += decoded values
 */
#ifndef CSHIM_FORMATS_CUH
#define CSHIM_FORMATS_CUH

#include "kernels/values.cuh"

/* Eight fields of so many bits with the same value. */
CSHIM_CONSTANT uint64_t eight_fields(int bits, uint64_t field)
{
    uint64_t fields = 0;
    for (int i = 0; i < LANE_ELEMENTS && bits <= 8; i++)
        fields |= field << bits * i;
    return fields;
}

/* Adds a code to those before it; the words are zeros to begin with. */
CSHIM_DEVICE void put_code(uint32_t *words, unsigned bits, unsigned i, uint32_t code)
{
    const unsigned bit = bits * i;
    words[bit / 32] |= code << bit % 32;
    if (bit % 32 + bits > 32)
        words[bit / 32 + 1] |= code >> (32 - bit % 32);
}

CSHIM_DEVICE uint32_t get_code(const uint32_t *words, unsigned bits, unsigned i)
{
    const unsigned bit = bits * i;
    uint32_t code = words[bit / 32] >> bit % 32;
    if (bit % 32 + bits > 32)
        code |= words[bit / 32 + 1] << (32 - bit % 32);
    return code & (0xffffffffu >> (32 - bits));
}

template <int ID> struct layout {
    static const uint32_t CODEC = ID;
    static const int FAMILY = cshim_format(ID).family;
    static const int BITS = cshim_format(ID).bits;
    static const int BLOCK = cshim_format(ID).block;
    static const int BLOCK_EXPONENT = BLOCK == 32 ? 5 : BLOCK == 64 ? 6 : BLOCK == 128 ? 7 : 8;
    static const int SCALE_BYTES = cshim_format(ID).scale_bytes;
    static const int WORDS = (BITS + 3) / 4; /* of a lane's codes */
    static const bool IS_EXACT = BITS == 32; /* any float, NaNs with their payload */

    /* A word of codes that leave every sum as it is: -0, or 0 where there is no -0. */
    CSHIM_DEVICE uint32_t nothing(int word)
    {
        const uint64_t signs = eight_fields(BITS, (uint64_t)1 << (BITS - 1));
        return FAMILY == CSHIM_FAMILY_INTEGER ? 0
               : BITS == 32                   ? 0x80000000u
               : BITS == 16                   ? 0x80008000u
                                              : (uint32_t)(signs >> 32 * word);
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

template <int ID, int FAMILY = cshim_format(ID).family> struct family;

template <int ID> struct format : family<ID> {
};

/* Small floats. */
template <int ID> struct family<ID, CSHIM_FAMILY_FLOAT> : layout<ID> {
    typedef int scale; /* the exponent */
    static const int MIN_SCALE = cshim_format(ID).min_scale;
    static const uint32_t UNIT = -MIN_SCALE;

    CSHIM_DEVICE scale choose(uint32_t largest, bool at_random)
    {
        return load(cshim_choose_scale(cshim_format(ID), largest, at_random));
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
        return exponent >= -126 && exponent + cshim_format(ID).max_exponent <= 127;
    }
    CSHIM_DEVICE void encode_fast(const float *value, scale exponent, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < layout<ID>::WORDS; i++)
            codes[i] = 0;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            put_code(codes, layout<ID>::BITS, i,
                     cshim_float_encode(cshim_format(ID), value[i], exponent));
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *, scale)
    {
        return true;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale exponent, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] += cshim_float_decode(cshim_format(ID), get_code(codes, layout<ID>::BITS, i),
                                         exponent);
    }
};

template <> struct format<CSHIM_CODEC_FP16> : family<CSHIM_CODEC_FP16> {
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

template <> struct format<CSHIM_CODEC_FP8_E4M3> : family<CSHIM_CODEC_FP8_E4M3> {
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

template <> struct format<CSHIM_CODEC_FP8_E5M2> : family<CSHIM_CODEC_FP8_E5M2> {
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

/* Not inlined, because the division is long. The scaling is the same for every width. */
CSHIM_RARE struct cshim_scaling scaling_of(uint32_t stored)
{
    return cshim_scaling(cshim_format(CSHIM_CODEC_INT8), stored);
}

template <int ID> CSHIM_RARE uint32_t integer_scale_of(uint32_t largest)
{
    return cshim_integer_scale(cshim_format(ID), largest);
}

/* Integers with a 16-bit scale. */
template <int ID> struct family<ID, CSHIM_FAMILY_INTEGER> : layout<ID> {
    typedef uint32_t scale;
    static const uint32_t UNIT = CSHIM_INTEGER_UNIT_SCALE;
    static const int BITS = layout<ID>::BITS;
    static const uint32_t HALF = 1u << (BITS - 1);

    CSHIM_DEVICE scale choose(uint32_t largest, bool)
    {
        return integer_scale_of<ID>(largest);
    }
    CSHIM_DEVICE uint32_t store(scale code)
    {
        return code;
    }
    CSHIM_DEVICE scale load(uint32_t stored)
    {
        return stored;
    }
    CSHIM_DEVICE void encode_fast(const float *value, scale code, uint32_t *codes)
    {
        const struct cshim_scaling scaling = scaling_of(code);
#pragma unroll
        for (int i = 0; i < layout<ID>::WORDS; i++)
            codes[i] = 0;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const int nearest = cshim_nearest_integer(value[i] * scaling.lift * scaling.inverse);
            put_code(codes, BITS, i, (uint32_t)nearest & (2 * HALF - 1));
        }
    }
    /* With each code's highest bit turned round codes are in the order of their values, and 0 is
     * that of what is not finite. */
    CSHIM_DEVICE uint64_t turned(const uint32_t *codes)
    {
        const uint64_t upper = layout<ID>::WORDS > 1 ? codes[layout<ID>::WORDS - 1] : 0;
        return (codes[0] | upper << 32) ^ eight_fields(BITS, HALF);
    }
    /* No code is 0. */
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, scale code)
    {
        const uint64_t fields = turned(codes);
        const uint64_t zero = (fields - eight_fields(BITS, 1)) & ~fields & eight_fields(BITS, HALF);
        return code >= CSHIM_INTEGER_FIRST_ORDINARY && code <= CSHIM_INTEGER_LAST_ORDINARY &&
               zero == 0;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, scale code, float *sum)
    {
        const float factor = cshim_bits_float((code - CSHIM_INTEGER_SCALE_OFFSET) << 16);
        const uint64_t fields = turned(codes);
        const uint32_t words[2] = {(uint32_t)fields, (uint32_t)(fields >> 32)};
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const float field = BITS == 8 ? byte_above_2_23(words[i / 4], i % 4)
                                          : above_2_23(get_code(words, BITS, i));
            sum[i] = put(field - (0x1p23f + (float)HALF), factor, sum[i]);
        }
    }
};

/* The formats without scales. */
template <int ID> struct family<ID, CSHIM_FAMILY_UPPER> : layout<ID> {
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

template <> struct format<CSHIM_CODEC_BF16> : family<CSHIM_CODEC_BF16> {
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

template <> struct format<CSHIM_CODEC_FP32> : family<CSHIM_CODEC_FP32> {
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
