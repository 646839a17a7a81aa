/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs for the eight elements of a lane.
 *
 * As types, where the codec is known when this is compiled: the fast way of each codec for ordinary
 * blocks, inlined. Every row of codecs/formats.def is a type format<ID> by its family; a
 * specialisation may bring a faster way. A type has these functions, in which `stored` is a scale
 * as messages have it:
 *
 *   choose(largest, at_random)           the scale of a block
 *   encode_fast(values, stored, codes)   adds the codes of finite values to zeros
 *   is_fast(codes, stored)               whether add_fast may be called
 *   add_fast(codes, stored, sum)         adds the decoded values to sums
 *
 * As numbers: single elements, through codecs/scalar.h in functions that exist once per kernel, and
 * the way to a codec's type.
 */
#ifndef CSHIM_FORMATS_CUH
#define CSHIM_FORMATS_CUH

#include "kernels/values.cuh"

/* Eight fields with the same value, each of `bits` bits. */
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
    static const int FAMILY = cshim_format(ID).family;
    static const int BITS = cshim_format(ID).bits;
    static const int BLOCK = cshim_format(ID).block;
    static const int BLOCK_EXPONENT = BLOCK == 32 ? 5 : BLOCK == 64 ? 6 : BLOCK == 128 ? 7 : 8;
    static const int SCALE_BYTES = cshim_format(ID).scale_bytes;
    static const int WORDS = (BITS + 3) / 4; /* of a lane's codes */

    /* A word of codes that leave every sum as it is: -0, or 0 where there is no -0. */
    CSHIM_DEVICE uint32_t nothing(int word)
    {
        const uint64_t signs = eight_fields(BITS, (uint64_t)1 << (BITS - 1));
        return FAMILY == CSHIM_FAMILY_INTEGER ? 0
               : BITS == 32                   ? 0x80000000u
               : BITS == 16                   ? 0x80008000u
                                              : (uint32_t)(signs >> 32 * word);
    }
    CSHIM_DEVICE uint32_t choose(uint32_t largest, bool at_random)
    {
        return cshim_choose_scale(cshim_format(ID), largest, at_random);
    }
    CSHIM_DEVICE bool is_fast(const uint32_t *, uint32_t)
    {
        return true;
    }
};

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
    static const uint32_t UNIT = -cshim_format(ID).min_scale;

    CSHIM_DEVICE int exponent_of(uint32_t stored)
    {
        return (int)stored + cshim_format(ID).min_scale;
    }
    CSHIM_DEVICE void encode_fast(const float *value, uint32_t stored, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            put_code(codes, layout<ID>::BITS, i,
                     cshim_float_encode(cshim_format(ID), value[i], exponent_of(stored)));
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, uint32_t stored, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] += cshim_float_decode(cshim_format(ID), get_code(codes, layout<ID>::BITS, i),
                                         exponent_of(stored));
    }
};

/* Small floats that the hardware converts in pairs, by way of binary16 (values.cuh). */
template <int ID> struct paired : family<ID> {
    CSHIM_DEVICE void encode_fast(const float *value, uint32_t stored, uint32_t *codes)
    {
        const int exponent = -family<ID>::exponent_of(stored);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS / 2; i++)
            put_code(codes, 2 * layout<ID>::BITS, i,
                     pair_of<ID>(cshim_scale_by_power(value[2 * i], exponent),
                                 cshim_scale_by_power(value[2 * i + 1], exponent)));
    }
    /* Values are the codes' values times one normal float, and that is exact. */
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, uint32_t stored)
    {
        const int exponent = family<ID>::exponent_of(stored);
        return exponent >= -126 && exponent + cshim_format(ID).max_exponent <= 127 &&
               !has_hidden_nan<ID>(codes[0]) && !has_hidden_nan<ID>(codes[1]);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, uint32_t stored, float *sum)
    {
        const float factor =
            cshim_power_of_two(family<ID>::exponent_of(stored) + halves_exponent<ID>());
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS / 2; i++) {
            float first, second;
            floats_of_halves(halves_of_codes<ID>(codes, i), &first, &second);
            sum[2 * i] = put(first, factor, sum[2 * i]);
            sum[2 * i + 1] = put(second, factor, sum[2 * i + 1]);
        }
    }
};

template <> struct format<CSHIM_CODEC_FP16> : paired<CSHIM_CODEC_FP16> {
};
template <> struct format<CSHIM_CODEC_FP8_E4M3> : paired<CSHIM_CODEC_FP8_E4M3> {
};
template <> struct format<CSHIM_CODEC_FP8_E5M2> : paired<CSHIM_CODEC_FP8_E5M2> {
};

/* The scaling of integers, which is the same for every width. Not inlined, because the division is
 * long. */
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
    static const uint32_t UNIT = CSHIM_INTEGER_UNIT_SCALE;
    static const int BITS = layout<ID>::BITS;
    static const uint32_t HALF = 1u << (BITS - 1);

    CSHIM_DEVICE uint32_t choose(uint32_t largest, bool)
    {
        return integer_scale_of<ID>(largest);
    }
    CSHIM_DEVICE void encode_fast(const float *value, uint32_t stored, uint32_t *codes)
    {
        const struct cshim_scaling scaling = scaling_of(stored);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const int nearest = cshim_nearest_integer(value[i] * scaling.lift * scaling.inverse);
            put_code(codes, BITS, i, (uint32_t)nearest & (2 * HALF - 1));
        }
    }
    /* With each code's highest bit turned round codes are in the order of their values, and 0 is
     * the code of what is not finite. */
    CSHIM_DEVICE uint64_t turned(const uint32_t *codes)
    {
        const uint64_t upper = layout<ID>::WORDS > 1 ? codes[layout<ID>::WORDS - 1] : 0;
        return (codes[0] | upper << 32) ^ eight_fields(BITS, HALF);
    }
    /* The scale is an ordinary one, and no turned code is 0. */
    CSHIM_DEVICE bool is_fast(const uint32_t *codes, uint32_t stored)
    {
        const uint64_t fields = turned(codes);
        const uint64_t zero = (fields - eight_fields(BITS, 1)) & ~fields & eight_fields(BITS, HALF);
        return stored >= CSHIM_INTEGER_FIRST_ORDINARY && stored <= CSHIM_INTEGER_LAST_ORDINARY &&
               zero == 0;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, uint32_t stored, float *sum)
    {
        const float factor = cshim_bits_float((stored - CSHIM_INTEGER_SCALE_OFFSET) << 16);
        const uint64_t fields = turned(codes);
        const uint32_t words[2] = {(uint32_t)fields, (uint32_t)(fields >> 32)};
        /* A word is put before several fields: each lies under the bits of a power of two whose
         * last place is the field's. */
        const int together = 23 / BITS;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++) {
            const int place = BITS * (i % together);
            const float one = BITS == 8 ? 0x1p23f : (float)(1 << (23 - place));
            const uint32_t word = (uint32_t)(fields >> BITS * (i - i % together));
            const uint32_t mask = (2 * HALF - 1) << place;
            const float field =
                BITS == 8 ? byte_above_2_23(words[i / 4], i % 4)
                          : cshim_bits_float(put_under(word, mask, cshim_float_bits(one)));
            sum[i] = put(field - (one + (float)HALF), factor, sum[i]);
        }
    }
};

/* The upper bits of floats, without scales. */
template <int ID> struct family<ID, CSHIM_FAMILY_UPPER> : layout<ID> {
    static const uint32_t UNIT = 0;
    static const int BITS = layout<ID>::BITS;

    CSHIM_DEVICE void encode_fast(const float *value, uint32_t, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            put_code(codes, BITS, i,
                     BITS == 32 ? cshim_float_bits(value[i]) : cshim_bf16_encode(value[i]));
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, uint32_t, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] = sum[i] + cshim_bits_float(get_code(codes, BITS, i) << (32 - BITS));
    }
};

/* The elements of a buffer of float16 as a message of the codec raw has them. */
struct raw_half : format<CSHIM_CODEC_FP16> {
    static const int SCALE_BYTES = 0;
};

/* The largest magnitude of each lane's block, as bits, from those of the lanes. */
template <int BLOCK> CSHIM_DEVICE uint32_t block_largest(uint32_t largest)
{
#pragma unroll
    for (int distance = BLOCK / LANE_ELEMENTS / 2; distance > 0; distance /= 2)
        largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
    return largest;
}

/* The largest magnitude of the lane's values, as bits; infinity's bits or more if one is not
 * finite. */
CSHIM_DEVICE uint32_t lane_largest(const struct lane_values &values)
{
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        largest = max(largest, cshim_float_bits(values.value[i]) & ~CSHIM_SIGN_BIT);
    return largest;
}

/* The scale of a block whose largest finite magnitude has the bits given. */
CSHIM_RARE uint32_t choose_scale(uint32_t codec, uint32_t largest, bool at_random)
{
    return cshim_choose_scale(cshim_format(codec), largest, at_random);
}

/* The most that a residual may be in such a block. */
CSHIM_RARE float residual_limit(uint32_t codec, uint32_t largest, bool at_random)
{
    return cshim_bits_float(largest) * cshim_feedback_share(cshim_format(codec), at_random);
}

/* One element of any codec but raw, rounded to nearest. */
CSHIM_RARE uint32_t encode_element(uint32_t codec, float value, uint32_t stored)
{
    const struct cshim_format format = cshim_format(codec);
    return cshim_encode_nearest(format, value, cshim_scaling(format, stored));
}

/* One finite element, rounded at random. */
CSHIM_RARE uint32_t random_element(uint32_t codec, float value, uint32_t stored, uint32_t random)
{
    const struct cshim_format format = cshim_format(codec);
    return cshim_encode_random(format, value, cshim_scaling(format, stored), random);
}

CSHIM_RARE float decode_element(uint32_t codec, uint32_t code, uint32_t stored)
{
    return cshim_decode_code(cshim_format(codec), code, stored);
}

/* float16 elements as the codec raw has them, beside the codecs' numbers: fp16 without scales. */
#define RAW_HALF ((uint32_t)CSHIM_CODEC_COUNT)

/* A codec's layout where the codec is not known when this is compiled; a block has
 * 2^block_exponent elements. */
struct codec_layout {
    unsigned bits, block_exponent, scale_bytes;
};

CSHIM_DEVICE struct codec_layout layout_of(uint32_t codec)
{
    if (codec == RAW_HALF)
        return {16, 0, 0};
    const struct cshim_format format = cshim_format(codec);
    return {(unsigned)format.bits, (unsigned)__ffs(format.block) - 1, (unsigned)format.scale_bytes};
}

/* What a part of a reduction is read as: of the codec raw, the format of the element type. */
CSHIM_DEVICE uint32_t part_codec(uint32_t codec, uint32_t dtype)
{
    if (codec != CSHIM_CODEC_RAW)
        return codec;
    return dtype == CSHIM_FLOAT16    ? RAW_HALF
           : dtype == CSHIM_BFLOAT16 ? (uint32_t)CSHIM_CODEC_BF16
                                     : (uint32_t)CSHIM_CODEC_FP32;
}

/* Calls a function with the format of a codec; not of raw. */
template <bool PARTS, typename FUNCTION>
CSHIM_DEVICE void with_format(uint32_t codec, FUNCTION function)
{
    switch (codec) {
#define FLOAT(ID, ...)                                                                             \
    case ID:                                                                                       \
        function(format<ID>());                                                                    \
        break;
#define INTEGER FLOAT
#include "codecs/formats.def"
    case CSHIM_CODEC_BF16:
        function(format<CSHIM_CODEC_BF16>());
        break;
    case RAW_HALF:
        if (PARTS)
            function(raw_half());
        break;
    default:
        function(format<CSHIM_CODEC_FP32>());
    }
}

#endif
