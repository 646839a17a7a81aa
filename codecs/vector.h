/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the vector loops, for any vector width.
 *
 * The vector loops process whole blocks of ordinary numbers. Blocks with an extreme scale, partial
 * blocks and, in encoding, blocks with a non-finite element (bf16: or one near the largest) use the
 * scalar level's loops, so that these rare cases exist only once. Stochastic rounding, and formats
 * with scales that has_blocks() does not support, use the loops of portable.h, compiled for this
 * level.
 *
 * The including file defines, before:
 *   TARGET, LEVEL    as for level.h
 *   INLINE           an inline function with the level's instructions
 *   V(operation)     the compiler's intrinsic for an operation on whole vectors
 *   EACH_LANE(f, a)  a vector of f(a, 0), f(a, 1), ...: one number for each 32-bit lane
 *   ints, floats     vectors of LANES lanes; half: a vector half as long
 *   LOAD, LOAD_HALF, LOAD_QUARTER, LOWER_HALF, UPPER_HALF, JOIN
 *                    vectors from memory, and their halves
 *   REPEAT           a vector that repeats the same 16 bytes
 *   PERMUTE          the lanes with the given indices
 *   ANY_GREATER      true if any lane of one vector is greater (signed) than that of another
 *   KEEP_UP_TO       values in lanes where one number is less than or equal to another, 0 in the
 *                    others, also if a number is NaN
 *   REPLACE_NANS, REPLACE_CODE
 *                    values with the canonical NaN instead of any NaN, or in lanes with the given
 *                    code
 *   WITH_SIGN        one-byte codes with the signs of floats as their highest bits
 *   LOOK_UP          floats of a table of 16, by the lower bits of each lane; not defined if there
 *                    is no single instruction for it
 *   store            stores a vector, past the caches if asked to
 *   largest_lane     the greatest lane, unsigned
 *   store_joined     stores the result of join_codes without gaps */
#include "codecs/portable.h"

/* Bits of a magnitude. Blocks with an element of at least this magnitude use the scalar loop to add
 * residuals, because the sums, or 16 times the limit of the residuals, may not be finite. */
#define SUM_EXCEPTIONAL 0x7c000000u
/* Bits of the smallest magnitude that bf16 rounds up to infinity. */
#define BF16_EXCEPTIONAL 0x7f7f8000u

enum {
    /* Elements of two vectors, which are decoded together in all formats, and encoded together in
     * bf16. */
    STEP = 2 * LANES,
    /* Elements of four vectors, which are encoded together in formats of at most 8 bits. Except in
     * decoding, the AVX-512 level leaves smaller blocks to AVX2: wider vectors do not compute a
     * scale faster. */
    NARROWEST_BLOCK = 4 * LANES,
    /* Blocks of a grain for CSHIM_SCALE_E4M3, and the elements of each. */
    GRAIN_BLOCKS = 16,
    E4M3_BLOCK = CSHIM_GRAIN / GRAIN_BLOCKS,
    FLOATS_PER_LINE = 16,
    /* Prefetch distance, in floats. The hardware's own prefetching mostly stops at the end of a
     * page. */
    PREFETCH_FLOATS = 2048
};

/* Returns true for formats with scales that the vector code supports: integers, and floats that a
 * shift converts to binary16. */
CSHIM_INLINE bool has_blocks(struct cshim_format format)
{
    bool is_half = format.bits == 16 && format.mantissa_bits == 10 && format.has_infinity;
    bool is_byte = format.bits == 8 && (format.mantissa_bits == 2) == format.has_infinity &&
                   format.mantissa_bits >= 2;
    bool is_nibble = format.bits == 4 && format.special == CSHIM_SPECIAL_ZERO;
    return format.family == CSHIM_FAMILY_INTEGER ||
           (format.family == CSHIM_FAMILY_FLOAT && (is_half || is_byte || is_nibble));
}

/* Returns true for formats whose whole grains are encoded and decoded together, because their
 * blocks have E4M3 scales. */
CSHIM_INLINE bool has_grains(struct cshim_format format)
{
    return format.scale == CSHIM_SCALE_E4M3;
}

/* Returns the factor by which decoding multiplies the codes of a block with a plain scale; the
 * codes of floats are first converted to binary16. */
CSHIM_INLINE float decoding_factor(struct cshim_format format, uint32_t stored)
{
    return format.family == CSHIM_FAMILY_INTEGER ? cshim_plain_step(format, stored)
           : has_grains(format)
               ? cshim_e4m3_step(format, stored, cshim_half_shift(format))
               : cshim_power_of_two((int)stored + format.min_scale + cshim_half_shift(format));
}

/* Returns true if an array of `count` elements at `output` is written past the caches. Such an
 * array is large and aligned; its cache lines then need not be read from memory before they are
 * overwritten. The pieces of pipelined calls are smaller and stay in the cache. */
CSHIM_INLINE bool goes_past_cache(const void *output, size_t count)
{
    return count >= (size_t)1 << 22 && (uintptr_t)output % 32 == 0;
}

/* Orders stores past the cache before later stores, by a fence. Does nothing if `past_cache` is
 * false. */
CSHIM_INLINE void end_past_cache(bool past_cache)
{
    if (past_cache)
        _mm_sfence();
}

/* Prefetches the vector of floats PREFETCH_FLOATS after index `i`, once for each cache line. */
INLINE void prefetch(const float *input, size_t i)
{
    if (i % FLOATS_PER_LINE == 0)
        _mm_prefetch((const char *)(input + i + PREFETCH_FLOATS), _MM_HINT_T0);
}

/* Returns the bits of the largest magnitude in a block; NaN and Inf count as the largest. */
INLINE uint32_t largest_of(const float *input, size_t count)
{
    const ints magnitude = V(set1_epi32)((int)~CSHIM_SIGN_BIT);
    /* Initialised only because the compiler warns otherwise under the thread sanitizer. */
    ints largest[4] = {{0}};
    for (size_t i = 0; i < count; i += NARROWEST_BLOCK) {
        for (size_t k = 0; k < 4; k++) {
            prefetch(input + i, LANES * k);
            const ints own = LOAD(input + i + LANES * k) & magnitude;
            largest[k] = i == 0 ? own : V(max_epu32)(largest[k], own);
        }
    }
    return largest_lane(
        V(max_epu32)(V(max_epu32)(largest[0], largest[1]), V(max_epu32)(largest[2], largest[3])));
}

/* Writes decoded values, or adds them to the output; makes NaNs canonical. With CSHIM_PUT_REST, the
 * output has the sum that was encoded: replaces it by its difference from the values, or by 0 if
 * the sum is not finite (then sum - sum is NaN). */
INLINE void put(float *output, floats values, enum cshim_put_mode mode)
{
    if (mode == CSHIM_PUT_REST) {
        const floats sum = V(loadu_ps)(output), zero = V(sub_ps)(sum, sum);
        store(output, (ints)KEEP_UP_TO(V(sub_ps)(sum, values), zero, zero), false);
        return;
    }
    const floats result = mode == CSHIM_PUT_SUM ? V(add_ps)(V(loadu_ps)(output), values) : values;
    const floats nan = (floats)V(set1_epi32)((int)CSHIM_NAN_BITS);
    store(output, (ints)REPLACE_NANS(result, nan), mode == CSHIM_PUT_PAST_CACHE);
}

/* Returns codes of small floats, one in each lane (cshim_minifloat_encode), with their signs unless
 * nibbles_of() adds these. The exponent is in a lane's upper 16 bits, so a saturating 16-bit
 * subtraction gives its distance above the smallest exponent, or 0. */
INLINE ints float_codes(struct cshim_format format, floats scaled)
{
    const int dropped = 23 - format.mantissa_bits;
    const ints smallest = V(set1_epi32)((127 + format.min_exponent) << 23);
    const ints first_anchor = V(set1_epi32)((127 + format.min_exponent + dropped) << 23);
    const ints infinity = V(set1_epi32)((int)CSHIM_INFINITY_BITS);
    const floats sign_bit = V(set1_ps)(-0.0f), magnitude = V(andnot_ps)(sign_bit, scaled);
    const ints above = V(subs_epu16)((ints)scaled & infinity, smallest);
    const ints anchor = V(add_epi32)(above, first_anchor);
    const ints steps = V(sub_epi32)((ints)V(add_ps)(magnitude, (floats)anchor), anchor);
    const ints base = V(srli_epi32)(above, (unsigned)dropped);
    const ints codes = V(add_epi32)(steps, base);
    if (format.special == CSHIM_SPECIAL_ZERO)
        return codes;
    return WITH_SIGN(codes, scaled);
}

/* Returns the codes of LANES elements, multiplied by `inverse`, one in each lane. */
INLINE ints codes_of(struct cshim_format format, const float *input, floats inverse)
{
    const floats scaled = V(mul_ps)(V(loadu_ps)(input), inverse);
    return format.family == CSHIM_FAMILY_INTEGER ? V(cvtps_epi32)(scaled)
                                                 : float_codes(format, scaled);
}

/* Packing four vectors twice leaves the elements out of order, because a pack instruction works on
 * each 16 bytes separately. Returns the index of the 32-bit lane of the packed vector that belongs
 * at lane i, for PERMUTE. */
CSHIM_INLINE int lane_of_four(int lanes, int i)
{
    return i % (lanes / 4) * 4 + i / (lanes / 4);
}

/* Like lane_of_four(), for two vectors that were packed once. */
CSHIM_INLINE int lane_of_two(int lanes, int i)
{
    return i % (lanes / 2) / 2 * 4 + i / (lanes / 2) * 2 + i % 2;
}

/* Returns the 4-bit codes of 4 * LANES elements, from their magnitudes' codes, packed but not in
 * order. The elements are packed likewise, which keeps their signs. Code 0 gets no sign: adding 7
 * to a magnitude sets bit 3 unless it is 0. */
INLINE ints nibbles_of(ints magnitudes, const float *input)
{
    const ints low = V(packs_epi32)(LOAD(input), LOAD(input + LANES));
    const ints high = V(packs_epi32)(LOAD(input + 2 * LANES), LOAD(input + 3 * LANES));
    const ints signs = V(srli_epi16)(V(packs_epi16)(low, high), 4);
    const ints above = V(add_epi8)(magnitudes, V(set1_epi8)(7));
    return magnitudes | (signs & above & V(set1_epi8)(8));
}

/* Returns the codes of 4 * LANES elements, a byte each. The first half is multiplied by `inverse`,
 * the second by `later_inverse`. */
INLINE ints byte_codes(struct cshim_format format, const float *input, floats inverse,
                       floats later_inverse)
{
    const ints low =
        V(packs_epi32)(codes_of(format, input, inverse), codes_of(format, input + LANES, inverse));
    const ints high = V(packs_epi32)(codes_of(format, input + 2 * LANES, later_inverse),
                                     codes_of(format, input + 3 * LANES, later_inverse));
    const bool is_integer = format.family == CSHIM_FAMILY_INTEGER;
    ints codes = is_integer ? V(packs_epi16)(low, high) : V(packus_epi16)(low, high);
    if (format.special == CSHIM_SPECIAL_ZERO)
        codes = nibbles_of(codes, input);
    return PERMUTE(codes, EACH_LANE(lane_of_four, LANES));
}

/* Returns bytes 4 * i to 4 * i + 3 of the shuffle that ends join_codes(): each 8 bytes begin with
 * `bits` bytes that have the codes of eight elements; the shuffle removes the gap between the two
 * groups of each 16 bytes. 0x80 gives a zero. */
CSHIM_INLINE int joined_bytes(int bits, int i)
{
    uint32_t shuffle = 0;
    for (int at = i % 4 * 4; at < i % 4 * 4 + 4; at++) {
        uint32_t from = at < bits ? at : at < 2 * bits ? 8 + at - bits : 0x80;
        shuffle |= from << at % 4 * 8;
    }
    return (int)shuffle;
}

/* Returns the left shift of lane i that moves the codes of an even lane next to those of the odd
 * lane above it. */
CSHIM_INLINE int gap_of_even(int gap, int i)
{
    return i % 2 == 0 ? gap : 0;
}

/* Packs the lower `bits` bits of each of 16 bytes without gaps, into the first 2 * bits of these 16
 * bytes: joins pairs, then fours, then eights. */
INLINE ints join_codes(int bits, ints codes)
{
    const int gap = 32 - 4 * bits;
    codes &= V(set1_epi8)((char)((1 << bits) - 1));
    codes = V(maddubs_epi16)(V(set1_epi16)((short)(1 | 1 << (bits + 8))), codes);
    if (bits == 4)
        return V(packus_epi16)(codes, codes);
    codes = V(madd_epi16)(codes, V(set1_epi32)(1 | 1 << (16 + 2 * bits)));
    codes = V(sllv_epi32)(codes, EACH_LANE(gap_of_even, gap));
    codes = V(srli_epi64)(codes, (unsigned)gap);
    return V(shuffle_epi8)(codes, EACH_LANE(joined_bytes, bits));
}

/* Converts floats to binary16. */
INLINE ints halves_of(floats low, floats high)
{
    return JOIN(V(cvtps_ph)(low, _MM_FROUND_TO_NEAREST_INT),
                V(cvtps_ph)(high, _MM_FROUND_TO_NEAREST_INT));
}

/* Encodes a block of finite floats, multiplied by `factor`. `is_last`: no block follows, so that
 * nothing may be written after the codes. */
INLINE void encode_block(struct cshim_format format, const float *input, float factor,
                         uint8_t *payload, bool past_cache, bool is_last)
{
    const floats inverse = V(set1_ps)(factor);
    for (int i = 0; i < format.block && format.bits == 16; i += 2 * LANES) {
        const floats low = V(mul_ps)(V(loadu_ps)(input + i), inverse);
        const floats high = V(mul_ps)(V(loadu_ps)(input + i + LANES), inverse);
        store(payload + 2 * i, halves_of(low, high), past_cache);
    }
    for (int i = 0; i < format.block && format.bits <= 8; i += 4 * LANES) {
        const ints codes = byte_codes(format, input + i, inverse, inverse);
        if (format.bits == 8) {
            store(payload + i, codes, past_cache);
        } else {
            store_joined(format.bits, join_codes(format.bits, codes), payload + i / 8 * format.bits,
                         is_last && i + 4 * LANES == format.block);
        }
    }
}

/* Returns the offset of the codes of a block, whose first element has index `element`. */
CSHIM_INLINE size_t codes_at(struct cshim_format format, size_t element)
{
    return cshim_payload_bytes((unsigned)format.bits, element);
}

/* Returns the offset of the scale of a block, whose first element has index `element`. */
CSHIM_INLINE size_t scale_at(struct cshim_format format, size_t element)
{
    return element / (size_t)format.block * (size_t)format.scale_bytes;
}

/* Returns lane i of a shuffle that moves the two bytes that contain integer code i to the lower
 * bytes of the lane. */
CSHIM_INLINE int window(int bits, int i)
{
    return (int)(0x80800100u + 0x0101u * (unsigned)(i * bits / 8));
}

/* Returns the left shift that moves code i to the highest bits of its lane after the shuffle of
 * window(). */
CSHIM_INLINE int lift(int bits, int i)
{
    return 32 - bits - i * bits % 8;
}

/* Returns the values of LANES integer codes, multiplied by `scale`. May read bytes after the codes.
 */
INLINE floats integer_values(struct cshim_format format, const uint8_t *payload, floats scale)
{
    const int bits = format.bits;
    ints codes;
#ifdef LOOK_UP
    if (bits == 4) {
        const float nan = cshim_bits_float(CSHIM_NAN_BITS);
        const floats steps = V(setr_ps)(0, 1, 2, 3, 4, 5, 6, 7, nan, -7, -6, -5, -4, -3, -2, -1);
        codes = V(cvtepu8_epi64)(_mm_loadl_epi64((const __m128i *)payload));
        return LOOK_UP(V(mul_ps)(steps, scale), codes | V(slli_epi64)(codes, 28));
    }
#endif
    if (bits == 8) {
        codes = V(cvtepi8_epi32)(LOAD_QUARTER(payload));
    } else {
        codes = V(shuffle_epi8)(REPEAT(_mm_loadu_si128((const __m128i *)payload)),
                                EACH_LANE(window, bits));
        codes = V(sllv_epi32)(codes, EACH_LANE(lift, bits));
        codes = V(srai_epi32)(codes, (unsigned)(32 - bits));
    }
    return REPLACE_CODE(V(mul_ps)(V(cvtepi32_ps)(codes), scale), codes,
                        V(set1_epi32)(-format.top - 1), (floats)V(set1_epi32)((int)CSHIM_NAN_BITS));
}

/* Returns bytes 4 * i to 4 * i + 3 of a table: the upper bytes of the binary16 numbers to which a
 * shift converts the 4-bit codes. Code 8 becomes NaN. */
CSHIM_INLINE int nibble_halves(int shift, int i)
{
    uint32_t bytes = 0;
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t code = (uint32_t)i % 4 * 4 + k;
        const uint32_t byte = code == 8 ? 0x7e : (code & 8) << 4 | (code & 7) << (shift - 8);
        bytes |= byte << 8 * k;
    }
    return (int)bytes;
}

/* Converts 2 * LANES codes of small floats to binary16: the magnitude is shifted to its position
 * there. The code of NaN in formats without infinities (8 bits: the largest magnitude; 4 bits: -0)
 * becomes a NaN of binary16. */
INLINE ints halves_of_codes(struct cshim_format format, const uint8_t *payload)
{
    const int shift = 10 - format.mantissa_bits;
    if (format.bits == 4) {
        /* Each lane has two codes, which select the upper bytes of its two halves. The selectors of
         * the lower bytes are 0, and byte 0 of the table is 0. */
        const ints pairs = V(cvtepu8_epi32)(LOAD_QUARTER(payload));
        const ints selectors =
            (V(slli_epi32)(pairs, 8) | V(slli_epi32)(pairs, 20)) & V(set1_epi32)(0x0f000f00);
        return V(shuffle_epi8)(EACH_LANE(nibble_halves, shift), selectors);
    }
    ints halves = V(slli_epi16)(V(cvtepi8_epi16)(LOAD_HALF(payload)), (unsigned)shift);
    if (format.has_infinity) /* same exponent bits as binary16 */
        return halves;
    halves &= V(set1_epi16)((short)(0x8000 | 0x7f << shift));
    ints is_nan = V(add_epi16)(halves, V(set1_epi16)((short)(1 << shift)));
    is_nan &= V(set1_epi16)((short)(1 << (shift + 7)));
    for (int bit = shift + 7; bit < 14; bit++)
        is_nan |= V(slli_epi16)(is_nan, 1);
    return halves | is_nan;
}

/* Sets the values of STEP codes of a unit (unit_of()), from index `i` on. In formats with scales
 * multiplies them by the unit's factors. */
INLINE void values_of(struct cshim_format format, const uint8_t *payload, int i,
                      const float *factors, floats values[2])
{
    const floats scale = V(set1_ps)(factors[has_grains(format) ? i / E4M3_BLOCK : 0]);
    const floats later_scale =
        has_grains(format) ? V(set1_ps)(factors[(i + LANES) / E4M3_BLOCK]) : scale;
    payload += codes_at(format, (size_t)i);
    if (format.family == CSHIM_FAMILY_INTEGER) {
        values[0] = integer_values(format, payload, scale);
        values[1] = integer_values(format, payload + codes_at(format, LANES), scale);
    } else if (format.bits == 32) {
        values[0] = (floats)LOAD(payload);
        values[1] = (floats)LOAD(payload + sizeof values[0]);
    } else if (format.family == CSHIM_FAMILY_UPPER) {
        const ints low = V(cvtepu16_epi32)(LOAD_HALF(payload));
        const ints high = V(cvtepu16_epi32)(LOAD_HALF(payload + sizeof low / 2));
        values[0] = (floats)V(slli_epi32)(low, 16);
        values[1] = (floats)V(slli_epi32)(high, 16);
    } else {
        const ints halves = format.bits == 16 ? LOAD(payload) : halves_of_codes(format, payload);
        values[0] = V(mul_ps)(V(cvtph_ps)(LOWER_HALF(halves)), scale);
        values[1] = V(mul_ps)(V(cvtph_ps)(UPPER_HALF(halves)), later_scale);
    }
}

/* Returns the number of elements of a unit, which is encoded and decoded as a whole: a block, or a
 * grain of blocks with E4M3 scales, or STEP elements in a format without scales. */
CSHIM_INLINE int unit_of(struct cshim_format format)
{
    return format.family == CSHIM_FAMILY_UPPER ? (int)STEP
           : has_grains(format)                ? (int)CSHIM_GRAIN
                                               : format.block;
}

/* Decodes a unit, multiplied by its factors. */
INLINE void expand_unit(struct cshim_format format, const uint8_t *payload, const float *factors,
                        float *output, enum cshim_put_mode mode)
{
    for (int i = 0; i < unit_of(format); i += STEP) {
        floats values[2];
        values_of(format, payload, i, factors, values);
        put(output + i, values[0], mode);
        put(output + i + LANES, values[1], mode);
    }
}

/* Decodes two units and writes their sum. */
INLINE void add_two_units(struct cshim_format format, const uint8_t *first,
                          const float *first_factors, const uint8_t *second,
                          const float *second_factors, float *sum)
{
    for (int i = 0; i < unit_of(format); i += STEP) {
        floats a[2], b[2];
        values_of(format, first, i, first_factors, a);
        values_of(format, second, i, second_factors, b);
        put(sum + i, V(add_ps)(a[0], b[0]), CSHIM_PUT);
        put(sum + i + LANES, V(add_ps)(a[1], b[1]), CSHIM_PUT);
    }
}

/* Returns the bf16 code of each lane, in its lower half. */
INLINE ints upper_codes(ints bits)
{
    const ints odd = V(srli_epi32)(bits, 16) & V(set1_epi32)(1);
    const ints rounding = V(add_epi32)(odd, V(set1_epi32)(0x7fff));
    return V(srli_epi32)(V(add_epi32)(bits, rounding), 16);
}

/* Encodes STEP floats as bf16. Returns false, with nothing written, if the magnitude of one is at
 * least BF16_EXCEPTIONAL. */
INLINE bool encode_upper(const float *input, uint8_t *payload, bool past_cache)
{
    const ints magnitude = V(set1_epi32)((int)~CSHIM_SIGN_BIT);
    const ints ordinary = V(set1_epi32)((int)BF16_EXCEPTIONAL - 1);
    prefetch(input, 0);
    prefetch(input, LANES);
    const ints low = LOAD(input), high = LOAD(input + LANES);
    if (ANY_GREATER(V(max_epi32)(low & magnitude, high & magnitude), ordinary))
        return false;
    const ints codes = V(packus_epi32)(upper_codes(low), upper_codes(high));
    store(payload, PERMUTE(codes, EACH_LANE(lane_of_two, LANES)), past_cache);
    return true;
}

/* Implements narrow_half (struct cshim_level). */
TARGET static void narrow_half(const float *input, size_t count, uint8_t *output)
{
    const floats nan = (floats)V(set1_epi32)((int)CSHIM_NAN_BITS);
    size_t i = 0;
    for (; i + STEP <= count; i += STEP) {
        const floats low = REPLACE_NANS(V(loadu_ps)(input + i), nan);
        const floats high = REPLACE_NANS(V(loadu_ps)(input + i + LANES), nan);
        store(output + 2 * i, halves_of(low, high), false);
    }
    cshim_level_scalar.narrow_half(input + i, count - i, output + 2 * i);
}

/* Adds blocks of inputs to their residuals. Blocks whose sums may not be finite, and the last,
 * partial block, use the scalar loop. Computes the largest magnitude one block ahead, as
 * encode_run() does. */
INLINE void add_blocks(const float *input, size_t count, size_t block, float share, float *residual)
{
    for (size_t begin = 0, left = count; begin < count; begin += block, left = count - begin) {
        uint32_t largest = left < block ? SUM_EXCEPTIONAL : largest_of(input + begin, block);
        for (; largest < SUM_EXCEPTIONAL; begin += block, left -= block) {
            const floats limit = V(set1_ps)(cshim_bits_float(largest) * share);
            const floats far = (floats)V(add_epi32)((ints)limit, V(set1_epi32)(4 << 23));
            largest = left < 2 * block ? SUM_EXCEPTIONAL : largest_of(input + begin + block, block);
            for (size_t i = begin; i < begin + block; i += LANES) {
                /* min and max of two zeros return the second operand, so a residual of -0 keeps its
                 * sign. */
                const floats sign_bit = V(set1_ps)(-0.0f), own = V(loadu_ps)(residual + i);
                const floats limited = V(max_ps)(V(xor_ps)(limit, sign_bit), V(min_ps)(limit, own));
                const floats near = KEEP_UP_TO(limited, V(andnot_ps)(sign_bit, own), far);
                store(residual + i, (ints)V(add_ps)(V(loadu_ps)(input + i), near), false);
            }
        }
        cshim_level_scalar.add_residual(input + begin, left < block ? left : block, block, share,
                                        residual + begin);
    }
}

/* Implements add_residual (struct cshim_level). */
TARGET static void add_residual(const float *input, size_t count, size_t block, float share,
                                float *residual)
{
    if (block < NARROWEST_BLOCK)
        cshim_level_avx2.add_residual(input, count, block, share, residual);
    else if (block == NARROWEST_BLOCK)
        add_blocks(input, count, NARROWEST_BLOCK, share, residual);
    else
        add_blocks(input, count, block, share, residual);
}

/* Encodes blocks (in formats without scales, STEP floats at a time) from element `begin` on, up to
 * the first that needs the scalar loops. Returns the index of that block's first element, or
 * `count`. Computes the largest magnitude one block ahead, so that loads from memory overlap with
 * arithmetic. */
INLINE size_t encode_run(struct cshim_format format, const float *input, size_t begin, size_t count,
                         uint8_t *payload, uint8_t *scales, bool past_cache)
{
    if (format.family == CSHIM_FAMILY_UPPER) {
        while (begin < count && encode_upper(input + begin, payload + 2 * begin, past_cache))
            begin += STEP;
        return begin;
    }
    const size_t block = (size_t)format.block;
    uint32_t largest = largest_of(input + begin, block);
    for (; begin < count; begin += block) {
        const bool is_last = begin + block == count;
        const uint32_t stored = cshim_choose_scale(format, largest, false);
        if (largest >= CSHIM_INFINITY_BITS || !cshim_is_plain(format, stored))
            return begin;
        largest = is_last ? 0 : largest_of(input + begin + block, block);
        cshim_store_scale(format, scales, begin / block, stored);
        encode_block(format, input + begin, cshim_plain_inverse(format, stored),
                     payload + codes_at(format, begin), past_cache, is_last);
    }
    return count;
}

/* Computes the largest magnitude of each block of a grain, as largest_of() does. Four blocks at a
 * time are reduced by transposing them. */
INLINE void largest_of_blocks(const float *input, uint32_t largest[GRAIN_BLOCKS])
{
    const ints magnitude = V(set1_epi32)((int)~CSHIM_SIGN_BIT);
    for (size_t block = 0; block < GRAIN_BLOCKS; block += 4) {
        ints own[4] = {{0}};
        uint32_t lanes[LANES];
        for (size_t k = 0; k < 4; k++) {
            const float *const from = input + (block + k) * E4M3_BLOCK;
            prefetch(from, 0);
            own[k] =
                V(max_epu32)(LOAD(from) & magnitude, LOAD(from + E4M3_BLOCK - LANES) & magnitude);
        }
        const ints first =
            V(max_epu32)(V(unpacklo_epi32)(own[0], own[1]), V(unpackhi_epi32)(own[0], own[1]));
        const ints second =
            V(max_epu32)(V(unpacklo_epi32)(own[2], own[3]), V(unpackhi_epi32)(own[2], own[3]));
        store(lanes,
              V(max_epu32)(V(unpacklo_epi64)(first, second), V(unpackhi_epi64)(first, second)),
              false);
        for (size_t k = 0; k < 4; k++)
            largest[block + k] = lanes[k] > lanes[k + 4] ? lanes[k] : lanes[k + 4];
    }
}

/* Encodes a grain of blocks with E4M3 scales. Returns false, with nothing stored, if it needs the
 * scalar loops. */
INLINE bool encode_grain(struct cshim_format format, const float *input, uint8_t *payload,
                         uint8_t *scales, bool is_last)
{
    uint32_t largest[GRAIN_BLOCKS], stored[GRAIN_BLOCKS], most = 0;
    float inverse[GRAIN_BLOCKS];
    largest_of_blocks(input, largest);
    for (size_t block = 0; block < GRAIN_BLOCKS; block++)
        most = most > largest[block] ? most : largest[block];
    const uint32_t grain = cshim_choose_scale(format, most, false);
    if (most >= CSHIM_INFINITY_BITS || !cshim_is_plain(format, grain | CSHIM_E4M3_FIRST_NORMAL))
        return false;
    /* A plain grain's power of two is a normal float, so its reciprocal can be a part of `share`,
     * and one multiplication gives a block's wanted E4M3 number. */
    const float share =
        CSHIM_E4M3_SHARE * cshim_power_of_two(-((int)(grain >> 8) + format.min_scale));
    for (size_t block = 0; block < GRAIN_BLOCKS; block++) {
        const float wanted = cshim_bits_float(largest[block]) * share;
        const uint32_t code = cshim_minifloat_encode(wanted, 3, -6);
        stored[block] = grain | (code < CSHIM_E4M3_FIRST_NORMAL ? CSHIM_E4M3_FIRST_NORMAL : code);
        inverse[block] = 1.0f / cshim_e4m3_step(format, stored[block], 0);
    }
    for (size_t block = 0; block < GRAIN_BLOCKS; block++)
        cshim_store_scale(format, scales, block, stored[block]);
    for (size_t i = 0; i < CSHIM_GRAIN; i += 4 * LANES) {
        const size_t block = i / E4M3_BLOCK;
        const ints codes = byte_codes(format, input + i, V(set1_ps)(inverse[block]),
                                      V(set1_ps)(inverse[block + 2 * LANES / E4M3_BLOCK]));
        store_joined(format.bits, join_codes(format.bits, codes), payload + codes_at(format, i),
                     is_last && i + 4 * LANES == CSHIM_GRAIN);
    }
    return true;
}

/* Like encode_run(), for grains of blocks with E4M3 scales. */
INLINE size_t encode_grains(struct cshim_format format, const float *input, size_t begin,
                            size_t count, uint8_t *payload, uint8_t *scales)
{
    while (begin < count &&
           encode_grain(format, input + begin, payload + codes_at(format, begin),
                        scales + scale_at(format, begin), begin + CSHIM_GRAIN == count))
        begin += CSHIM_GRAIN;
    return begin;
}

/* Like cshim_encode_portably() without random numbers. */
INLINE void encode_array(struct cshim_format format, enum cshim_codec_id id, const float *input,
                         size_t count, uint8_t *payload, uint8_t *scales)
{
    const bool is_scaled = format.family != CSHIM_FAMILY_UPPER;
    const size_t unit = (size_t)unit_of(format), whole = count / unit * unit;
    if (format.bits == 32 || (is_scaled && !has_blocks(format))) {
        cshim_encode_portably(format, input, NULL, count, payload, scales);
        return;
    }
    if (has_grains(format) ? E4M3_BLOCK < STEP : format.block < NARROWEST_BLOCK) {
        cshim_level_avx2.codecs[id].encode(input, count, payload, scales);
        return;
    }
    const struct cshim_loops *scalar = &cshim_level_scalar.codecs[id];
    const bool past_cache = goes_past_cache(payload, whole);
    for (size_t i = 0; i < whole; i += unit) {
        i = has_grains(format) ? encode_grains(format, input, i, whole, payload, scales)
                               : encode_run(format, input, i, whole, payload, scales, past_cache);
        if (i < whole) {
            scalar->encode(input + i, unit, payload + codes_at(format, i),
                           scales + scale_at(format, i));
        }
    }
    end_past_cache(past_cache);
    scalar->encode(input + whole, count - whole, payload + codes_at(format, whole),
                   scales + scale_at(format, whole));
}

/* Reads the factors of a unit's codes from its scales: GRAIN_BLOCKS of a grain, else one. Returns
 * false if the unit needs the scalar loops. */
INLINE bool read_factors(struct cshim_format format, const uint8_t *scales, float *factors)
{
    bool is_plain = true;
    factors[0] = 1;
    for (size_t i = 0; i < (size_t)unit_of(format) / (size_t)format.block; i++) {
        const uint32_t stored = cshim_load_scale(format, scales, i);
        factors[i] = decoding_factor(format, stored);
        is_plain = is_plain & cshim_is_plain(format, stored);
    }
    return is_plain;
}

/* Like cshim_expand_portably(). */
INLINE void expand_array(struct cshim_format format, enum cshim_codec_id id, const uint8_t *payload,
                         const uint8_t *scales, size_t count, float *output,
                         enum cshim_put_mode mode)
{
    const bool is_scaled = format.family != CSHIM_FAMILY_UPPER, is_sum = mode == CSHIM_PUT_SUM;
    const size_t unit = (size_t)unit_of(format);
    if ((format.bits == 32 && !is_sum) || (is_scaled && !has_blocks(format))) {
        cshim_expand_portably(format, payload, scales, count, output, mode);
        return;
    }
    const struct cshim_loops *scalar = &cshim_level_scalar.codecs[id];
    for (size_t i = 0; i < count; i += unit) {
        const size_t length = count - i < unit ? count - i : unit;
        const uint8_t *codes = payload + codes_at(format, i), *scale = scales + scale_at(format, i);
        float factors[GRAIN_BLOCKS];
        if (length == unit && read_factors(format, scale, factors))
            expand_unit(format, codes, factors, output + i, mode);
        else if (is_sum)
            scalar->add(codes, scale, length, output + i);
        else
            (mode == CSHIM_PUT_REST ? scalar->rest : scalar->decode)(codes, scale, length,
                                                                     output + i);
    }
    end_past_cache(mode == CSHIM_PUT_PAST_CACHE);
}

/* Like cshim_add_two_portably(). */
INLINE void add_two_arrays(struct cshim_format format, enum cshim_codec_id id, const uint8_t *first,
                           const uint8_t *first_scales, const uint8_t *second,
                           const uint8_t *second_scales, size_t count, float *sum)
{
    const size_t unit = (size_t)unit_of(format);
    if (format.family != CSHIM_FAMILY_UPPER && !has_blocks(format)) {
        cshim_add_two_portably(format, first, first_scales, second, second_scales, count, sum);
        return;
    }
    for (size_t i = 0; i < count; i += unit) {
        const size_t length = count - i < unit ? count - i : unit;
        const uint8_t *a = first + codes_at(format, i), *b = second + codes_at(format, i);
        const uint8_t *a_scale = first_scales + scale_at(format, i);
        const uint8_t *b_scale = second_scales + scale_at(format, i);
        float a_factors[GRAIN_BLOCKS], b_factors[GRAIN_BLOCKS];
        if (length == unit && read_factors(format, a_scale, a_factors) &&
            read_factors(format, b_scale, b_factors))
            add_two_units(format, a, a_factors, b, b_factors, sum + i);
        else
            cshim_level_scalar.codecs[id].add_two(a, a_scale, b, b_scale, length, sum + i);
    }
}

#define PASSES_CACHE goes_past_cache
#define ENCODE encode_array
#define EXPAND expand_array
#define ADD_TWO add_two_arrays
#include "codecs/level.h"
