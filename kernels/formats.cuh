/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs, applied to the eight elements of a lane.
 *
 * The types format<ID> are the fast path: inlined code of one codec for ordinary blocks. Each row
 * UPPER, FLOAT or INTEGER of codecs/formats.def has one, derived from its family. `stored` is a
 * scale as it is stored in a message. A type has these functions:
 *
 *   choose(largest, grain)        chooses a block's scale by the largest magnitudes of the block
 *                                 and of the grain; says whether encode_fast may be used
 *   encode_fast(values, factor, codes)
 *                                 encodes values; `factor` is that of choose
 *   nothing(word)                 returns a word of codes that change no sum
 *   special(codes)                returns a value that has bits of SPECIAL set if add_fast cannot
 *                                 add the codes; its other bits are arbitrary
 *   further(stored, distance)     returns more than FAST_SPAN if `distance` is more, or if add_fast
 *                                 cannot use the scale; otherwise at most FAST_SPAN
 *   factor_of(stored)             returns the factor for add_fast
 *   add_fast(codes, factor, sum)  decodes values and adds them to sums
 *
 * choose_scale(), encode_element() and decode_element() are the slow path: they call
 * codecs/scalar.h and are not inlined. Their format comes with the kernel's parameters.
 * with_format() calls a function with the type of a codec's id. */
#ifndef CSHIM_FORMATS_CUH
#define CSHIM_FORMATS_CUH

#include "kernels/values.cuh"

/* Returns eight fields of `bits` bits, all with the value `field`; 0 if `bits` is more than 8. */
CSHIM_CONSTANT uint64_t eight_fields(int bits, uint64_t field)
{
    uint64_t fields = 0;
    for (int i = 0; i < LANE_ELEMENTS && bits <= 8; i++)
        fields |= field << bits * i;
    return fields;
}

/* Stores code i of a lane. The words have to be zero before the first code. */
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

/* The scale of a block, for encode_fast. */
struct block_scale {
    uint32_t stored; /* as stored in the message */
    float factor;    /* multiplies the values */
    bool is_fast;
};

template <int ID> struct layout {
    static const int FAMILY = cshim_format(ID).family;
    static const int BITS = cshim_format(ID).bits;
    static const int BLOCK = cshim_format(ID).block;
    static const int SCALE_BYTES = cshim_format(ID).scale_bytes;
    static const int WORDS = (BITS + 3) / 4; /* words of a lane's codes */
    static const bool IS_ENCODED = true;     /* a reduction encodes its sums in this format */
    /* True if blocks have E4M3 scales; the scales of a grain share a power of two. */
    static const bool HAS_GRAIN = cshim_format(ID).scale == CSHIM_SCALE_E4M3;
    static const bool HAS_MINUS_ZERO =
        FAMILY != CSHIM_FAMILY_INTEGER && cshim_format(ID).special != CSHIM_SPECIAL_ZERO;

    /* Returns word `word` of eight codes that change no sum: -0, or 0 in a format without -0, whose
     * sums are never -0. */
    CSHIM_DEVICE uint32_t nothing(int word)
    {
        const uint64_t signs = eight_fields(BITS, (uint64_t)1 << (BITS - 1));
        return !HAS_MINUS_ZERO ? 0
               : BITS == 32    ? 0x80000000u
               : BITS == 16    ? 0x80008000u
                               : (uint32_t)(signs >> 32 * word);
    }
    /* Defaults for families without scales and special codes. */
    static const uint64_t SPECIAL = eight_fields(BITS, (uint64_t)1 << (BITS - 1));
    CSHIM_DEVICE float factor_of(uint32_t)
    {
        return 1.0f;
    }
    CSHIM_DEVICE uint32_t further(uint32_t, uint32_t distance)
    {
        return distance;
    }
    CSHIM_DEVICE uint64_t special(const uint32_t *)
    {
        return 0;
    }
};

/* Returns sum + code * scale. The product is exact, so a fused multiply-add gives the same result
 * as two roundings. */
CSHIM_DEVICE float put(float code, float scale, float sum)
{
    return __fmaf_rn(code, scale, sum);
}

template <int ID, int FAMILY = cshim_format(ID).family> struct family;

template <int ID> struct format : family<ID> {
};

/* Returns 1 / value, correctly rounded. `value` has 8 significant bits, and its reciprocal is
 * normal. The residual of the hardware's approximation is computed exactly, and no such reciprocal
 * lies so close to the middle between two floats that the square of the residual matters. */
CSHIM_DEVICE float reciprocal(float value)
{
#if defined(__CUDA_ARCH__)
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(value));
    return __fmaf_rn(near, __fmaf_rn(-value, near, 1.0f), near);
#else
    return 1.0f / value;
#endif
}

/* Small floats, which are decoded by way of binary16 (values.cuh): an element's value is that of
 * its code, read as binary16, times one normal float, and this product is exact. */
template <int ID> struct family<ID, CSHIM_FAMILY_FLOAT> : layout<ID> {
    static const int BITS = layout<ID>::BITS;
    static const int MIN_SCALE = cshim_format(ID).min_scale;
    static const bool HAS_GRAIN = layout<ID>::HAS_GRAIN;
    static const uint32_t UNIT =
        HAS_GRAIN ? (uint32_t)-MIN_SCALE << 8 | CSHIM_E4M3_FIRST_NORMAL : (uint32_t)-MIN_SCALE;
    /* Range of the scales of the fast path, except E4M3 scales: at least 2^-126, and so small that
     * the values of all codes are finite, and that the scale and its reciprocal are normal floats,
     * even when multiplied by 2^halves_exponent. */
    static const int MOST = cshim_format(ID).max_exponent;
    static const uint32_t FIRST_FAST = (uint32_t)(-126 - MIN_SCALE);
    static const uint32_t FAST_SPAN =
        HAS_GRAIN ? 0 : 126 + 126 - (MOST > halves_exponent<ID>() ? MOST : halves_exponent<ID>());

    CSHIM_DEVICE struct block_scale choose(uint32_t largest, uint32_t grain)
    {
        const uint32_t stored = cshim_refine_scale(
            cshim_format(ID),
            cshim_choose_scale(cshim_format(ID), HAS_GRAIN ? grain : largest, false), largest,
            false);
        if (HAS_GRAIN)
            return {stored, reciprocal(factor_of(stored)),
                    cshim_e4m3_is_ordinary(stored) && grain < CSHIM_INFINITY_BITS};
        const int exponent = (int)stored + MIN_SCALE + halves_exponent<ID>();
        return {stored, cshim_power_of_two(-exponent),
                stored - FIRST_FAST <= FAST_SPAN && largest < CSHIM_INFINITY_BITS};
    }
    CSHIM_DEVICE void encode_fast(const float *value, float factor, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS && BITS >= 8; i += 4)
            codes_of<ID>(value + i, factor, codes + i * BITS / 32);
        if (BITS == 4)
            codes[0] = e2m1_codes_of(value, factor) | e2m1_codes_of(value + 4, factor) << 16;
    }
    CSHIM_DEVICE float factor_of(uint32_t stored)
    {
        return HAS_GRAIN ? cshim_e4m3_step(cshim_format(ID), stored, halves_exponent<ID>())
                         : cshim_power_of_two((int)stored + MIN_SCALE + halves_exponent<ID>());
    }
    CSHIM_DEVICE uint32_t further(uint32_t stored, uint32_t distance)
    {
        if (HAS_GRAIN)
            return cshim_e4m3_is_ordinary(stored) ? distance : ~0u;
        return __viaddmax_u32(stored, 0u - FIRST_FAST, distance);
    }
    CSHIM_DEVICE uint64_t special(const uint32_t *codes)
    {
        return BITS == 4 ? hidden_nans<ID>(codes[0])
                         : hidden_nans<ID>(codes[0]) | hidden_nans<ID>(codes[1]);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, float factor, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS / 2; i++) {
            float first, second;
            floats_of_halves(halves_of_codes<ID>(codes, i), &first, &second);
            sum[2 * i] = put(first, factor, sum[2 * i]);
            sum[2 * i + 1] = put(second, factor, sum[2 * i + 1]);
        }
    }
};

/* Integers with a 16-bit scale. */
template <int ID> struct family<ID, CSHIM_FAMILY_INTEGER> : layout<ID> {
    static const uint32_t UNIT = CSHIM_INTEGER_UNIT_SCALE;
    static const int BITS = layout<ID>::BITS;
    static const uint32_t HALF = 1u << (BITS - 1);
    static const uint32_t FIRST_FAST = CSHIM_INTEGER_FIRST_ORDINARY;
    static const uint32_t FAST_SPAN = CSHIM_INTEGER_LAST_ORDINARY - CSHIM_INTEGER_FIRST_ORDINARY;

    /* Chooses the smallest scale of 8 significant bits that is at least largest / top. The scale is
     * the quotient, cut to its upper 16 bits, or the next scale above: the quotient is never too
     * small, because 1 / top is rounded up. The product lower * top is exact. */
    CSHIM_DEVICE struct block_scale choose(uint32_t largest, uint32_t)
    {
        const float top = cshim_format(ID).top, most = cshim_bits_float(largest);
        const float above = 1.0f / top + 0x1p-23f / top;
        const float lower = cshim_bits_float(cshim_float_bits(most * above) & 0xffff0000u);
        const uint32_t upper = cshim_float_bits(lower) + (lower * top < most ? 0x10000u : 0);
        const uint32_t step = largest == 0 ? cshim_float_bits(1.0f) : upper;
        const uint32_t stored = (step >> 16) + CSHIM_INTEGER_SCALE_OFFSET;
        /* FIRST_FAST itself is excluded: the largest scale below the normal floats is rounded up to
         * it. */
        return {stored, reciprocal(cshim_bits_float(step)), stored - FIRST_FAST - 1 < FAST_SPAN};
    }
    /* Rounds by adding 2^23: each integer then stands in the last bits of a float. Adding HALF,
     * too, makes the integers nonnegative, so that shifts and additions pack them side by side.
     * Inverting the highest bit of each integer then yields the codes. */
    CSHIM_DEVICE void encode_fast(const float *value, float factor, uint32_t *codes)
    {
        const int together = LANE_ELEMENTS / 2;
        uint32_t sums[2] = {0, 0}, excess = 0;
#pragma unroll
        for (int i = together - 1; i >= 0; i--) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float steps = value[i + together * k] * factor + (0x1p23f + (float)HALF);
                sums[k] = (sums[k] << BITS) + cshim_float_bits(steps);
            }
            excess = (excess << BITS) + cshim_float_bits(0x1p23f);
        }
        const uint64_t first = sums[0] - excess, second = sums[1] - excess;
        const uint64_t fields = (first | second << together * BITS) ^ eight_fields(BITS, HALF);
        codes[0] = (uint32_t)fields;
        codes[layout<ID>::WORDS - 1] = (uint32_t)(fields >> 32 * (layout<ID>::WORDS - 1));
    }
    /* Inverts the highest bit of each code. Codes are then ordered by value, and 0 is the code of a
     * non-finite value. */
    CSHIM_DEVICE uint64_t turned(const uint32_t *codes)
    {
        const uint64_t upper = layout<ID>::WORDS > 1 ? codes[layout<ID>::WORDS - 1] : 0;
        return (codes[0] | upper << 32) ^ eight_fields(BITS, HALF);
    }
    CSHIM_DEVICE float factor_of(uint32_t stored)
    {
        return cshim_bits_float((stored - CSHIM_INTEGER_SCALE_OFFSET) << 16);
    }
    CSHIM_DEVICE uint32_t further(uint32_t stored, uint32_t distance)
    {
        return __viaddmax_u32(stored, 0u - FIRST_FAST, distance);
    }
    CSHIM_DEVICE uint64_t special(const uint32_t *codes)
    {
        const uint64_t fields = turned(codes);
        return (fields - eight_fields(BITS, 1)) & ~fields;
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, float factor, float *sum)
    {
        const uint64_t fields = turned(codes);
        const uint32_t words[2] = {(uint32_t)fields, (uint32_t)(fields >> 32)};
        /* Converts fields where they are in a word: sets the bits above a field to those of a power
         * of two. This makes a float in which the field's lowest bit counts 1. */
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

    static const uint32_t FAST_SPAN = 0;

    /* With 16 bits, encode_fast rounds by an addition, which needs values that do not round to
     * infinity. */
    CSHIM_DEVICE struct block_scale choose(uint32_t largest, uint32_t)
    {
        return {UNIT, 1.0f, BITS == 32 || largest < BF16_TOO_LARGE};
    }
    CSHIM_DEVICE void encode_fast(const float *value, float, uint32_t *codes)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            if (BITS == 32)
                codes[i] = cshim_float_bits(value[i]);
            else if (i % 2 == 0)
                codes[i / 2] = upper_halves_of(value[i], value[i + 1]);
    }
    CSHIM_DEVICE void add_fast(const uint32_t *codes, float, float *sum)
    {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] = sum[i] + cshim_bits_float(get_code(codes, BITS, i) << (32 - BITS));
    }
};

/* The float16 elements of a message of the codec raw. */
struct raw_half : format<CSHIM_CODEC_FP16> {
    static const int SCALE_BYTES = 0;
    static const bool IS_ENCODED = false;
};

/* Returns the largest magnitude of the lane's block of BLOCK elements, as bits. `largest` is the
 * largest magnitude of the lane's own elements or, if FROM is given, of its block of FROM elements.
 * All lanes must call it. */
template <int BLOCK, int FROM = LANE_ELEMENTS> CSHIM_DEVICE uint32_t block_largest(uint32_t largest)
{
#pragma unroll
    for (int distance = BLOCK / LANE_ELEMENTS / 2; distance >= FROM / LANE_ELEMENTS; distance /= 2)
        largest = max(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
    return largest;
}

/* Returns the scale of a block. `largest` and `grain` are the largest finite magnitudes of the
 * block and of its grain, as bits. */
CSHIM_RARE uint32_t choose_scale(const struct cshim_format *format, uint32_t largest,
                                 uint32_t grain, bool at_random)
{
    const bool has_grain = format->scale == CSHIM_SCALE_E4M3;
    const uint32_t stored = cshim_choose_scale(*format, has_grain ? grain : largest, at_random);
    return cshim_refine_scale(*format, stored, largest, at_random);
}

/* Returns the code of one element. Stochastic rounding (`at_random`) needs a finite element. */
CSHIM_RARE uint32_t encode_element(const struct cshim_format *format, float value, uint32_t stored,
                                   bool at_random, uint32_t random)
{
    const struct cshim_scaling scaling = cshim_scaling(*format, stored);
    return at_random ? cshim_encode_random(*format, value, scaling, random)
                     : cshim_encode_nearest(*format, value, scaling);
}

CSHIM_RARE float decode_element(const struct cshim_format *format, uint32_t code, uint32_t stored)
{
    return cshim_decode_code(*format, code, stored);
}

/* Returns the number of an element's block. */
CSHIM_DEVICE uint64_t block_of(const struct cshim_format *format, uint64_t element)
{
    return element >> (__ffs(format->block) - 1);
}

/* A pseudo codec for the float16 elements of a raw message: fp16 without scales. */
#define RAW_HALF ((uint32_t)CSHIM_CODEC_COUNT)

/* Returns the codec that decodes a message of a reduction. A raw message holds elements, so it is
 * decoded by the codec that stores this element type unchanged; sum_doubles() reads float64. */
CSHIM_DEVICE uint32_t part_codec(uint32_t codec, uint32_t dtype)
{
    if (codec != CSHIM_CODEC_RAW)
        return codec;
    return dtype == CSHIM_FLOAT16    ? RAW_HALF
           : dtype == CSHIM_BFLOAT16 ? (uint32_t)CSHIM_CODEC_BF16
                                     : (uint32_t)CSHIM_CODEC_FP32;
}

/* Calls `function` with the type format<ID> of a codec other than raw; with PARTS, the codec may
 * also be RAW_HALF. */
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
