/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: loops for any format, in portable C.
 *
 * scalar.h defines the conversion of one element; these loops give the same bits for whole blocks.
 * The properties of a block (its scale, and that all elements are finite) are computed before its
 * loop (bf16: in it), so that the loop has no branches and the compiler vectorises it. Blocks with
 * an extreme scale and, in encoding, blocks with a non-finite element (bf16: or one near the
 * largest) or with stochastic rounding use scalar.h's functions. tests/unit/test_codec_reference.c
 * compares the two.
 *
 * The loops are compiled for each format and SIMD level: `format` is a constant wherever they are
 * inlined. */
#ifndef CSHIM_PORTABLE_H
#define CSHIM_PORTABLE_H

#include <stdbool.h>

#include "codecs/loops.h"
#include "codecs/scalar.h"

#define CSHIM_INLINE static inline __attribute__((always_inline))

/* 1 on 64-bit Arm, whose processors convert between float and binary16, if the compiler has a type
 * for binary16; else 0. */
#if defined(__ARM_FP16_FORMAT_IEEE) && defined(__aarch64__)
#define CSHIM_HAS_HALF 1
#include <arm_neon.h>
#else
#define CSHIM_HAS_HALF 0
#endif

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Modes of writing decoded values: store them to the output, store them past the caches, add them
 * to the output, or subtract them from it (error feedback). */
enum cshim_put_mode { CSHIM_PUT, CSHIM_PUT_PAST_CACHE, CSHIM_PUT_SUM, CSHIM_PUT_REST };

/* Returns the exponent of the power of two by which a small float's code, converted to binary16 by
 * a shift, must be multiplied to get the code's value. */
CSHIM_INLINE int cshim_half_shift(struct cshim_format format)
{
    return 14 + format.min_exponent;
}

/* Returns true if one multiplication by a float scales the elements of a block: the scale and its
 * reciprocal are normal floats, and the top code times the scale is finite. */
CSHIM_INLINE bool cshim_is_plain(struct cshim_format format, uint32_t stored)
{
    if (format.family == CSHIM_FAMILY_UPPER)
        return true;
    if (format.family == CSHIM_FAMILY_INTEGER)
        return stored >= CSHIM_INTEGER_FIRST_ORDINARY && stored <= CSHIM_INTEGER_LAST_ORDINARY;
    if (format.scale == CSHIM_SCALE_E4M3)
        return cshim_e4m3_is_ordinary(stored);
    int exponent = (int)stored + format.min_scale, shift = cshim_half_shift(format);
    int top = format.max_exponent > shift ? format.max_exponent : shift;
    return exponent >= -126 && exponent + top <= 127;
}

/* Returns the number by which encoders divide the elements of a block with a plain scale before
 * they round them. */
CSHIM_INLINE float cshim_plain_step(struct cshim_format format, uint32_t stored)
{
    return format.family == CSHIM_FAMILY_INTEGER
               ? cshim_bits_float((stored - CSHIM_INTEGER_SCALE_OFFSET) << 16)
           : format.scale == CSHIM_SCALE_E4M3 ? cshim_e4m3_step(format, stored, 0)
                                              : cshim_power_of_two((int)stored + format.min_scale);
}

/* Returns the reciprocal of cshim_plain_step(): encoders multiply by it instead of dividing. */
CSHIM_INLINE float cshim_plain_inverse(struct cshim_format format, uint32_t stored)
{
    return format.family == CSHIM_FAMILY_INTEGER || format.scale == CSHIM_SCALE_E4M3
               ? 1.0f / cshim_plain_step(format, stored)
               : cshim_power_of_two(-((int)stored + format.min_scale));
}

/* Number of elements that an unrolled loop processes. */
enum { CSHIM_PART = 32 };

/* Returns 32 ones if a condition holds, else 32 zeros. */
CSHIM_INLINE uint32_t cshim_mask(bool condition)
{
    return 0u - (uint32_t)condition;
}

/* Like cshim_canonical(), in fewer instructions. */
CSHIM_INLINE float cshim_one_nan(float value)
{
    return value == value ? value : cshim_bits_float(CSHIM_NAN_BITS);
}

/* Encoding -------------------------------------------------------------------------------- */

/* Rounds a scaled element to the code of a small float, in the lower format.bits bits of the
 * result; the upper bits are undefined. Adds an anchor, a power of two whose last place is that of
 * the code, so that the addition rounds (see cshim_minifloat_encode); the sum has the anchor's
 * exponent. */
CSHIM_INLINE uint32_t cshim_plain_float_code(struct cshim_format format, float scaled)
{
    const uint32_t dropped = 23 - (uint32_t)format.mantissa_bits;
    const uint32_t smallest = (uint32_t)(127 + format.min_exponent) << 23;
    const uint32_t exponent = cshim_float_bits(scaled) & CSHIM_INFINITY_BITS;
    const uint32_t binade = exponent > smallest ? exponent : smallest;
    const float anchor = cshim_bits_float(binade + (dropped << 23));
    const uint32_t rounded = cshim_float_bits(__builtin_fabsf(scaled) + anchor);
    /* 16-bit arithmetic, because vectors have twice as many such lanes. */
    const uint16_t upper = (uint16_t)(rounded >> 16), lower = (uint16_t)rounded;
    const uint16_t raised =
        dropped >= 16 ? (uint16_t)(upper >> (dropped - 16)) : (uint16_t)(rounded >> dropped);
    const uint32_t base = (smallest + (dropped << 23)) >> dropped;
    const uint32_t code = (uint32_t)(uint16_t)(lower + raised) - base;
    const uint32_t sign = 1u << (format.bits - 1);
    const uint16_t scaled_upper = (uint16_t)(cshim_float_bits(scaled) >> 16);
    if (format.special == CSHIM_SPECIAL_ZERO) { /* + sign - 1 sets the sign bit of codes above 0 */
        const uint32_t own_sign = (uint32_t)(scaled_upper >> (16 - format.bits)) & sign;
        return (code & (sign - 1)) | (own_sign & ((code & (sign - 1)) + sign - 1));
    }
    return (code & ~sign) | ((uint32_t)(scaled_upper >> (16 - format.bits)) & sign);
}

/* Returns the code of an element of a block with a plain scale, in the lower format.bits bits.
 * `inverse` is the reciprocal of the block's step. */
CSHIM_INLINE uint32_t cshim_plain_code(struct cshim_format format, float value, float inverse)
{
    const float scaled = value * inverse;
    if (format.family == CSHIM_FAMILY_INTEGER)
        return cshim_float_bits(scaled + 0x1.8p23f); /* see cshim_nearest_integer */
    return cshim_plain_float_code(format, scaled);
}

/* Returns the bytes of an unpacked code: at least 1. */
CSHIM_INLINE size_t cshim_code_bytes(struct cshim_format format)
{
    return format.bits > 8 ? (size_t)format.bits / 8 : 1;
}

/* Returns true if the codes are binary16. */
CSHIM_INLINE bool cshim_is_half(struct cshim_format format)
{
    return format.family == CSHIM_FAMILY_FLOAT && format.bits == 16 && format.mantissa_bits == 10;
}

/* Writes code `i` of an array of unpacked codes (cshim_code_bytes). */
CSHIM_INLINE void cshim_put_code(struct cshim_format format, uint8_t *restrict codes, size_t i,
                                 uint32_t code)
{
    const uint16_t wide = (uint16_t)code;
    if (format.bits > 8)
        memcpy(codes + 2 * i, &wide, sizeof wide);
    else
        codes[i] = (uint8_t)code;
}

/* Returns the bits of the largest magnitude of `count` floats; NaN and Inf count as the largest. */
CSHIM_INLINE uint32_t cshim_largest_magnitude(const float *restrict input, size_t count)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t magnitude = (int32_t)(cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT);
        largest = magnitude > largest ? magnitude : largest;
    }
    return (uint32_t)largest;
}

/* Like cshim_largest_magnitude(), for a block. If a file compiles for wider vectors than SSE2's, it
 * defines CSHIM_WIDE_VECTORS: then the compiler's own code is the fastest. */
#ifdef CSHIM_WIDE_VECTORS
#define cshim_largest_of_block cshim_largest_magnitude
#else
#ifdef __SSE2__
/* Like cshim_largest_magnitude(), for a multiple of 8 floats. SSE2 has no maximum of 32-bit
 * integers; its maximum of floats ignores a NaN in the first operand, so NaNs are detected
 * separately. */
CSHIM_INLINE uint32_t cshim_largest_of_part(const float *input, size_t count)
{
    const __m128 sign = _mm_set1_ps(-0.0f);
    __m128 largest = _mm_setzero_ps(), nans = _mm_setzero_ps();
    for (size_t i = 0; i < count; i += 8) {
        const __m128 a = _mm_loadu_ps(input + i), b = _mm_loadu_ps(input + i + 4);
        nans = _mm_or_ps(nans, _mm_cmpunord_ps(a, b));
        largest = _mm_max_ps(_mm_andnot_ps(sign, a), largest);
        largest = _mm_max_ps(_mm_andnot_ps(sign, b), largest);
    }
    largest = _mm_max_ps(largest, _mm_movehl_ps(largest, largest));
    largest = _mm_max_ps(largest, _mm_shuffle_ps(largest, largest, 1));
    return _mm_movemask_ps(nans) != 0 ? CSHIM_NAN_BITS : cshim_float_bits(_mm_cvtss_f32(largest));
}
#else
#define cshim_largest_of_part cshim_largest_magnitude
#endif

/* Cuts a block into parts of a constant length, so that the compiler unrolls the loop over one. */
CSHIM_INLINE uint32_t cshim_largest_of_block(const float *restrict input, size_t count)
{
    const size_t part = count % 64 == 0 ? 64 : 32, whole = count / part * part;
    uint32_t largest = cshim_largest_magnitude(input + whole, count - whole);
    for (size_t i = 0; i < whole; i += part) {
        const uint32_t own = part == 64 ? cshim_largest_of_part(input + i, 64)
                                        : cshim_largest_of_part(input + i, 32);
        largest = own > largest ? own : largest;
    }
    return largest;
}
#endif

/* Computes, element by element, the codes of a block for which cshim_block_codes() returns false.
 * With random numbers writes 16-bit codes to `wide` instead of `codes`. `random` is NULL for
 * rounding to nearest. */
CSHIM_INLINE void cshim_block_codes_singly(struct cshim_format format, const float *input,
                                           const uint32_t *random, size_t count, uint8_t *codes,
                                           uint16_t *wide, uint32_t stored)
{
    const struct cshim_scaling scaling = cshim_scaling(format, stored);
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT;
        bool at_random = random != NULL && magnitude < CSHIM_INFINITY_BITS;
        const uint32_t code = at_random ? cshim_encode_random(format, input[i], scaling, random[i])
                                        : cshim_encode_nearest(format, input[i], scaling);
        if (random != NULL)
            wide[i] = (uint16_t)code;
        else
            cshim_put_code(format, codes, i, code);
    }
}

/* Computes the codes of elements of a block with a plain scale. `inverse` is the reciprocal of the
 * block's step. */
CSHIM_INLINE void cshim_plain_codes(struct cshim_format format, const float *restrict input,
                                    float inverse, size_t count, uint8_t *restrict codes)
{
    size_t i = 0;
#if CSHIM_HAS_HALF
    for (; cshim_is_half(format) && i + 4 <= count; i += 4) {
        const float16x4_t halves = vcvt_f16_f32(vmulq_n_f32(vld1q_f32(input + i), inverse));
        vst1_u8(codes + 2 * i, vreinterpret_u8_f16(halves));
    }
#endif
    for (; i < count; i++)
        cshim_put_code(format, codes, i, cshim_plain_code(format, input[i], inverse));
}

/* Computes bf16 codes. Returns false if a float may round to infinity, or is not finite. */
CSHIM_INLINE bool cshim_upper_codes(const float *restrict input, size_t count,
                                    uint8_t *restrict codes)
{
    int16_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = cshim_float_bits(input[i]);
        const uint16_t code = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
        const int16_t magnitude = (int16_t)((uint16_t)(bits >> 16) & 0x7fff);
        largest = magnitude > largest ? magnitude : largest;
        memcpy(codes + 2 * i, &code, sizeof code);
    }
    return largest < 0x7f7f;
}

/* Returns the bits of the largest finite magnitude of a block whose largest magnitude has the bits
 * `largest`. */
CSHIM_INLINE uint32_t cshim_largest_finite(const float *restrict input, size_t count,
                                           uint32_t largest)
{
    if (largest < CSHIM_INFINITY_BITS)
        return largest;
    largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_finite_magnitude(input[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Computes the scale and the unpacked codes of a block or part of one. Returns false if
 * cshim_block_codes_singly() must compute the codes. Sets *stored to the stored scale in either
 * case, unless the format has none. `grain` is the grain's stored power of two (CSHIM_SCALE_E4M3
 * only). `random` is NULL for rounding to nearest; with random numbers, 16-bit codes are written to
 * `wide` instead of `codes`, because gcc vectorises that better. */
CSHIM_INLINE bool cshim_block_codes(struct cshim_format format, const float *restrict input,
                                    const uint32_t *restrict random, size_t count, uint32_t grain,
                                    uint8_t *restrict codes, uint16_t *restrict wide,
                                    uint32_t *stored)
{
    if (format.family == CSHIM_FAMILY_UPPER && random == NULL)
        return cshim_upper_codes(input, count, codes);
    /* gcc makes the random loop slower if cshim_largest_of_block() is inlined beside it. */
    const uint32_t largest = random != NULL ? cshim_largest_magnitude(input, count)
                                            : cshim_largest_of_block(input, count);
    const uint32_t largest_finite = cshim_largest_finite(input, count, largest);
    const bool is_finite = largest < CSHIM_INFINITY_BITS;
    *stored = format.scale == CSHIM_SCALE_E4M3
                  ? cshim_refine_scale(format, grain, largest_finite, random != NULL)
                  : cshim_choose_scale(format, largest_finite, random != NULL);
    if (random != NULL && is_finite) {
        const struct cshim_scaling scaling = cshim_scaling(format, *stored);
        for (size_t i = 0; i < count; i++)
            wide[i] = (uint16_t)cshim_encode_random(format, input[i], scaling, random[i]);
        return true;
    }
    if (!is_finite || !cshim_is_plain(format, *stored))
        return false;
    const float inverse = cshim_plain_inverse(format, *stored);
    const size_t whole = count / CSHIM_PART * CSHIM_PART;
    for (size_t i = 0; i < whole; i += CSHIM_PART)
        cshim_plain_codes(format, input + i, inverse, CSHIM_PART,
                          codes + i * cshim_code_bytes(format));
    cshim_plain_codes(format, input + whole, inverse, count - whole,
                      codes + whole * cshim_code_bytes(format));
    return true;
}

/* Packs the lower `bits` bits of 8 bytes without gaps: joins pairs, then fours, then all. */
CSHIM_INLINE uint64_t cshim_join_eight(unsigned bits, uint64_t codes)
{
    const uint64_t one = (1u << bits) - 1, two = (1u << 2 * bits) - 1,
                   four = (1ull << 4 * bits) - 1;
    const uint64_t ones = one * 0x0001000100010001u, twos = two * 0x0000000100000001u;
    codes = (codes & ones) | (codes >> (8 - bits) & ones << bits);
    codes = (codes & twos) | (codes >> (16 - 2 * bits) & twos << 2 * bits);
    return (codes & four) | (codes >> (32 - 4 * bits) & four << 4 * bits);
}

/* Reverses cshim_join_eight(). */
CSHIM_INLINE uint64_t cshim_part_eight(unsigned bits, uint64_t codes)
{
    const uint64_t one = (1u << bits) - 1, two = (1u << 2 * bits) - 1,
                   four = (1ull << 4 * bits) - 1;
    const uint64_t ones = one * 0x0001000100010001u, twos = two * 0x0000000100000001u;
    codes = (codes & four) | (codes << (32 - 4 * bits) & four << 32);
    codes = (codes & twos) | (codes << (16 - 2 * bits) & twos << 16);
    return (codes & ones) | (codes << (8 - bits) & ones << 8);
}

/* Size of an array for the unpacked codes of a grain, which are read and written 8 at a time. */
enum { CSHIM_CODES_ROOM = CSHIM_GRAIN + 8 };

/* Packs up to a grain of codes of less than 8 bits, from the first bit of a byte on. Unused bits of
 * the last byte are set to 0. Bytes of `codes` after the last code are overwritten. */
CSHIM_INLINE void cshim_store_codes(struct cshim_format format, uint8_t *restrict codes,
                                    size_t count, uint8_t *restrict payload)
{
    const unsigned bits = (unsigned)format.bits;
    const size_t words = (count + 7) / 8;
    uint64_t joined[CSHIM_GRAIN / 8];
    uint8_t bytes[CSHIM_CODES_ROOM];
    memset(codes + count, 0, 8);
    for (size_t i = 0; bits == 4 && i < (count + 1) / 2; i++) {
        uint16_t pair;
        memcpy(&pair, codes + 2 * i, sizeof pair);
        pair &= 0x0f0f;
        payload[i] = (uint8_t)(pair | pair >> 4);
    }
    if (bits == 4)
        return;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, codes + 8 * i, sizeof word);
        joined[i] = cshim_join_eight(bits, word);
    }
    for (size_t i = 0; i < words; i++) /* the next word overwrites the surplus bytes */
        memcpy(bytes + bits * i, &joined[i], sizeof joined[i]);
    memcpy(payload, bytes, cshim_payload_bytes(bits, count));
}

/* Returns the power of two of a grain with E4M3 scales, as the upper byte of a stored scale. Stores
 * this byte for all 16 blocks, even those that a partial grain lacks. */
CSHIM_INLINE uint32_t cshim_begin_grain(struct cshim_format format, const float *input,
                                        size_t count, bool at_random, uint8_t *scales)
{
    const uint32_t largest = cshim_largest_of_block(input, count);
    const uint32_t grain =
        cshim_choose_scale(format, cshim_largest_finite(input, count, largest), at_random);
    for (size_t block = 0; block < CSHIM_GRAIN / (size_t)format.block; block++)
        cshim_store_scale(format, scales, block, grain);
    return grain;
}

/* Encodes `count` floats, the first of which begins a block (with E4M3 scales, a grain). `random`
 * is NULL for rounding to nearest. */
CSHIM_INLINE void cshim_encode_portably(struct cshim_format format, const float *input,
                                        const uint32_t *random, size_t count, uint8_t *payload,
                                        uint8_t *scales)
{
    const size_t block = (size_t)format.block;
    if (format.bits == 32) {
        memcpy(payload, input, count * sizeof *input);
        return;
    }
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        uint8_t *const to = payload + cshim_payload_bytes((unsigned)format.bits, begin);
        uint8_t narrow[CSHIM_CODES_ROOM] = {0}; /* gcc 13 does not see that all is written */
        uint8_t *const codes = format.bits < 8 ? narrow : to;
        uint16_t wide[CSHIM_GRAIN];
        const uint32_t grain = format.scale == CSHIM_SCALE_E4M3
                                   ? cshim_begin_grain(format, input + begin, length,
                                                       random != NULL, scales + begin / block)
                                   : 0;
        for (size_t i = 0; i < length; i += block) {
            const size_t at = begin + i, left = length - i < block ? length - i : block;
            const uint32_t *numbers = random != NULL ? random + at : NULL;
            uint8_t *own = codes + i * cshim_code_bytes(format);
            uint32_t stored = 0;
            const bool is_done = left == block
                                     ? cshim_block_codes(format, input + at, numbers, block, grain,
                                                         own, wide + i, &stored)
                                     : cshim_block_codes(format, input + at, numbers, left, grain,
                                                         own, wide + i, &stored);
            if (!is_done)
                cshim_block_codes_singly(format, input + at, numbers, left, own, wide + i, stored);
            cshim_store_scale(format, scales, at / block, stored);
        }
        for (size_t i = 0; i < length && random != NULL; i++)
            cshim_put_code(format, codes, i, wide[i]);
        if (format.bits < 8)
            cshim_store_codes(format, narrow, length, to);
    }
}

/* Decoding -------------------------------------------------------------------------------- */

/* Returns the unpacked codes of up to a grain: the payload itself if codes are whole bytes, else
 * `apart`, after unpacking into it. */
CSHIM_INLINE const uint8_t *cshim_load_codes(struct cshim_format format, const uint8_t *payload,
                                             size_t count, uint8_t *restrict apart)
{
    const unsigned bits = (unsigned)format.bits;
    if (bits >= 8)
        return payload;
    uint64_t joined[CSHIM_GRAIN / 8];
    const size_t words = (count + 7) / 8;
    for (size_t i = 0; i < words; i++)
        memcpy(&joined[i], payload + bits * i, sizeof joined[i]);
    for (size_t i = 0; i < words; i++) {
        const uint64_t word = cshim_part_eight(bits, joined[i]);
        memcpy(apart + 8 * i, &word, sizeof word);
    }
    return apart;
}

/* Reads a code from the array that cshim_load_codes() returns. */
CSHIM_INLINE uint32_t cshim_get_code(struct cshim_format format, const uint8_t *codes, size_t i)
{
    uint16_t half;
    uint32_t word;
    if (format.bits <= 8)
        return codes[i];
    if (format.bits == 16) {
        memcpy(&half, codes + 2 * i, sizeof half);
        return half;
    }
    memcpy(&word, codes + 4 * i, sizeof word);
    return word;
}

/* Returns the value of a small float's code, without the scale. */
CSHIM_INLINE float cshim_plain_float_value(struct cshim_format format, uint32_t code)
{
    const int mantissa_bits = format.mantissa_bits;
    const uint32_t sign = code >> (format.bits - 1) << 31;
    const uint32_t magnitude = code & ((1u << (format.bits - 1)) - 1);
    /* A subnormal code is a number of steps; a step is the last place of this power of two. */
    const float anchor = cshim_power_of_two(23 + format.min_exponent - mantissa_bits);
    const float steps = cshim_bits_float(cshim_float_bits(anchor) | magnitude) - anchor;
    const uint32_t normal =
        (magnitude << (23 - mantissa_bits)) + ((uint32_t)(126 + format.min_exponent) << 23);
    const uint32_t is_subnormal = cshim_mask((int32_t)magnitude < 1 << mantissa_bits);
    const int32_t infinity = (int32_t)cshim_float_infinity(format);
    const uint32_t is_reserved =
        cshim_mask((format.special == CSHIM_SPECIAL_ZERO ? (int32_t)code == infinity
                                                         : (int32_t)magnitude >= infinity));
    const uint32_t reserved = format.has_infinity ? CSHIM_INFINITY_BITS : CSHIM_NAN_BITS;
    const uint32_t finite = (cshim_float_bits(steps) & is_subnormal) | (normal & ~is_subnormal);
    return cshim_bits_float(sign | finite | (reserved & is_reserved));
}

#if CSHIM_HAS_HALF
/* Returns true if cshim_half_value() supports a format: small floats of 8 or 16 bits whose codes a
 * shift converts to binary16 (except the NaNs of a format without infinities). */
CSHIM_INLINE bool cshim_is_like_half(struct cshim_format format)
{
    return format.family == CSHIM_FAMILY_FLOAT &&
           ((format.bits == 16 && format.mantissa_bits == 10) ||
            (format.bits == 8 && (format.mantissa_bits == 2) == format.has_infinity &&
             format.mantissa_bits >= 2));
}

/* Returns cshim_plain_float_value() times 2^-cshim_half_shift(). */
CSHIM_INLINE float cshim_half_value(struct cshim_format format, uint32_t code)
{
    const int shift = 10 - format.mantissa_bits;
    uint16_t bits = (uint16_t)code;
    if (format.bits == 8 && format.has_infinity) {
        bits = (uint16_t)(code << 8);
    } else if (format.bits == 8) {
        const uint16_t magnitude = code & 0x7f;
        const uint16_t is_nan = (uint16_t)(0 - (uint16_t)(magnitude == 0x7f));
        bits = (uint16_t)((code & 0x80) << 8 | magnitude << shift | (is_nan & 0x7e00));
    }
    __fp16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}
#endif

/* Returns the `factor` that cshim_plain_value() takes for a block with a plain scale. */
CSHIM_INLINE float cshim_plain_factor(struct cshim_format format, uint32_t stored)
{
#if CSHIM_HAS_HALF
    if (cshim_is_like_half(format))
        return cshim_power_of_two((int)stored + format.min_scale + cshim_half_shift(format));
#endif
    return format.family == CSHIM_FAMILY_UPPER ? 1 : cshim_plain_step(format, stored);
}

/* Returns the value of code `i` of a block with a plain scale. With `is_put`, which says that the
 * value is stored as it is, a NaN of an integer format is canonical. Otherwise a NaN may have any
 * payload. */
CSHIM_INLINE float cshim_plain_value(struct cshim_format format, const uint8_t *codes, size_t i,
                                     float factor, bool is_put)
{
    const uint32_t code = cshim_get_code(format, codes, i);
    if (format.family == CSHIM_FAMILY_UPPER)
        return cshim_bits_float(format.bits == 32 ? code : code << 16);
    if (format.family == CSHIM_FAMILY_INTEGER) {
        const int8_t number = (int8_t)((int8_t)(code << (8 - format.bits)) >> (8 - format.bits));
        const float value = (float)number * factor, reserved = (float)(-format.top - 1) * factor;
        const uint32_t bits = cshim_float_bits(value), is_nan = cshim_mask(value == reserved);
        return cshim_bits_float(is_put ? (bits & ~is_nan) | (CSHIM_NAN_BITS & is_nan)
                                       : bits | is_nan);
    }
#if CSHIM_HAS_HALF
    if (cshim_is_like_half(format))
        return cshim_half_value(format, code) * factor;
#endif
    return cshim_plain_float_value(format, code) * factor;
}

/* Returns what to write for a decoded value in a mode: the value, the sum with the old output, or
 * the old output minus the value. */
CSHIM_INLINE float cshim_put_value(struct cshim_format format, float old, float value,
                                   enum cshim_put_mode mode)
{
    if (mode == CSHIM_PUT_SUM)
        return cshim_one_nan(old + value);
    if (mode == CSHIM_PUT_REST)
        return cshim_feedback_rest(old, value);
    return format.family == CSHIM_FAMILY_INTEGER ? value : cshim_one_nan(value);
}

/* Decodes a block with a plain scale, or part of one. */
CSHIM_INLINE void cshim_expand_block(struct cshim_format format, const uint8_t *restrict codes,
                                     uint32_t stored, size_t count, float *restrict output,
                                     enum cshim_put_mode mode)
{
    const float factor = cshim_plain_factor(format, stored);
    const size_t whole = count / CSHIM_PART * CSHIM_PART;
    for (size_t begin = 0; begin < whole; begin += CSHIM_PART)
        for (size_t i = begin; i < begin + CSHIM_PART; i++)
            output[i] = cshim_put_value(
                format, output[i],
                cshim_plain_value(format, codes, i, factor, mode < CSHIM_PUT_SUM), mode);
    for (size_t i = whole; i < count; i++)
        output[i] = cshim_put_value(
            format, output[i], cshim_plain_value(format, codes, i, factor, mode < CSHIM_PUT_SUM),
            mode);
}

/* Decodes `count` elements, the first of which begins a block (with E4M3 scales, a grain), and
 * writes them by `mode`. */
CSHIM_INLINE void cshim_expand_portably(struct cshim_format format, const uint8_t *payload,
                                        const uint8_t *scales, size_t count, float *output,
                                        enum cshim_put_mode mode)
{
    const size_t block = (size_t)format.block;
    if (format.bits == 32 && mode < CSHIM_PUT_SUM) {
        memcpy(output, payload, count * sizeof *output);
        return;
    }
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        uint8_t apart[CSHIM_CODES_ROOM];
        const uint8_t *codes = cshim_load_codes(
            format, payload + cshim_payload_bytes((unsigned)format.bits, begin), length, apart);
        for (size_t i = 0; i < length; i += block) {
            const size_t left = length - i < block ? length - i : block;
            const uint32_t stored = cshim_load_scale(format, scales, (begin + i) / block);
            const uint8_t *own = codes + i * cshim_code_bytes(format);
            float *const to = output + begin + i;
            if (!cshim_is_plain(format, stored)) {
                for (size_t k = 0; k < left; k++)
                    to[k] = cshim_put_value(
                        format, to[k],
                        cshim_decode_code(format, cshim_get_code(format, own, k), stored), mode);
            } else if (left == block) {
                cshim_expand_block(format, own, stored, block, to, mode);
            } else {
                cshim_expand_block(format, own, stored, left, to, mode);
            }
        }
    }
}

/* Decodes a block with a plain scale, or part of one, of each of two arrays, and writes the sums.
 */
CSHIM_INLINE void cshim_add_two_blocks(struct cshim_format format, const uint8_t *restrict a,
                                       uint32_t a_stored, const uint8_t *restrict b,
                                       uint32_t b_stored, size_t count, float *restrict sum)
{
    const float a_factor = cshim_plain_factor(format, a_stored);
    const float b_factor = cshim_plain_factor(format, b_stored);
    for (size_t i = 0; i < count; i++)
        sum[i] = cshim_one_nan(cshim_plain_value(format, a, i, a_factor, false) +
                               cshim_plain_value(format, b, i, b_factor, false));
}

/* Decodes two arrays of `count` elements and writes the sums. */
CSHIM_INLINE void cshim_add_two_portably(struct cshim_format format, const uint8_t *first,
                                         const uint8_t *first_scales, const uint8_t *second,
                                         const uint8_t *second_scales, size_t count, float *sum)
{
    const size_t block = (size_t)format.block;
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        const size_t at = cshim_payload_bytes((unsigned)format.bits, begin);
        uint8_t a_apart[CSHIM_CODES_ROOM], b_apart[CSHIM_CODES_ROOM];
        const uint8_t *a = cshim_load_codes(format, first + at, length, a_apart);
        const uint8_t *b = cshim_load_codes(format, second + at, length, b_apart);
        for (size_t i = 0; i < length; i += block) {
            const size_t left = length - i < block ? length - i : block;
            const size_t skipped = i * cshim_code_bytes(format), number = (begin + i) / block;
            const uint32_t a_stored = cshim_load_scale(format, first_scales, number);
            const uint32_t b_stored = cshim_load_scale(format, second_scales, number);
            float *const to = sum + begin + i;
            if (!cshim_is_plain(format, a_stored) || !cshim_is_plain(format, b_stored)) {
                for (size_t k = 0; k < left; k++)
                    to[k] = cshim_sum(
                        cshim_decode_code(format, cshim_get_code(format, a + skipped, k), a_stored),
                        cshim_decode_code(format, cshim_get_code(format, b + skipped, k),
                                          b_stored));
            } else if (left == block) {
                cshim_add_two_blocks(format, a + skipped, a_stored, b + skipped, b_stored, block,
                                     to);
            } else {
                cshim_add_two_blocks(format, a + skipped, a_stored, b + skipped, b_stored, left,
                                     to);
            }
        }
    }
}

#endif
