/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the loops of both 8-bit floats. The including file defines, before it:
 *   FP8_BLOCK, FP8_MANTISSA_BITS, FP8_MIN_EXPONENT, FP8_MAX_EXPONENT, FP8_MIN_SCALE, FP8_BUMP
 *   fp8_encode, fp8_decode: the format's conversions in scalar.h
 *   FP8_IS_E4M3: 1 or 0
 */
#include "codecs/simd.h"

static int scale_of(uint32_t largest)
{
    return cshim_scale_exponent(largest, FP8_BUMP, FP8_MAX_EXPONENT, FP8_MIN_SCALE);
}

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    for (size_t begin = 0; begin < count; begin += FP8_BLOCK) {
        size_t end = count - begin < FP8_BLOCK ? count : begin + FP8_BLOCK;
        uint32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            uint32_t magnitude = cshim_finite_magnitude(input[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        int exponent = scale_of(largest);
        scales[begin / FP8_BLOCK] = (uint8_t)(exponent - FP8_MIN_SCALE);
        for (size_t i = begin; i < end; i++) {
            payload[i] = fp8_encode(input[i], exponent);
        }
    }
}

static inline void expand_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                                 float *output, enum cshim_put_mode mode)
{
    for (size_t i = 0; i < count; i++) {
        int exponent = scales[i / FP8_BLOCK] + FP8_MIN_SCALE;
        cshim_put(output + i, fp8_decode(payload[i], exponent), mode);
    }
}

#if CSHIM_X86
/* Codes with sign, one per 32-bit lane: cshim_minifloat_encode and the sign. The exponent field
 * lies in a lane's upper 16 bits, so that the saturating subtraction of 16-bit numbers gives how
 * far the exponent is above the smallest, or 0. */
CSHIM_AVX2_INLINE __m256i codes_avx2(const float *input, __m256 inverse)
{
    const __m256i smallest = _mm256_set1_epi32((127 + FP8_MIN_EXPONENT) << 23);
    const __m256i first_anchor =
        _mm256_set1_epi32((127 + FP8_MIN_EXPONENT + 23 - FP8_MANTISSA_BITS) << 23);
    const __m256i infinity = _mm256_set1_epi32((int)CSHIM_INFINITY_BITS);
    const __m256 sign_bit = _mm256_set1_ps(-0.0f);
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(input), inverse);
    __m256 magnitude = _mm256_andnot_ps(sign_bit, scaled);
    __m256i exponent = _mm256_and_si256(_mm256_castps_si256(scaled), infinity);
    __m256i above = _mm256_subs_epu16(exponent, smallest);
    __m256i anchor = _mm256_add_epi32(above, first_anchor);
    __m256 rounded = _mm256_add_ps(magnitude, _mm256_castsi256_ps(anchor));
    __m256i steps = _mm256_sub_epi32(_mm256_castps_si256(rounded), anchor);
    __m256i base = _mm256_srli_epi32(above, 23 - FP8_MANTISSA_BITS);
    __m256i sign = _mm256_castps_si256(_mm256_and_ps(scaled, sign_bit));
    return _mm256_or_si256(_mm256_add_epi32(steps, base), _mm256_srli_epi32(sign, 24));
}

CSHIM_AVX512_INLINE __m512i codes_avx512(const float *input, __m512 inverse)
{
    enum { OR_OF_FIRST_AND_COMMON = 0xf8 }; /* first | (second & third) */
    const __m512i smallest = _mm512_set1_epi32((127 + FP8_MIN_EXPONENT) << 23);
    const __m512i first_anchor =
        _mm512_set1_epi32((127 + FP8_MIN_EXPONENT + 23 - FP8_MANTISSA_BITS) << 23);
    const __m512i infinity = _mm512_set1_epi32((int)CSHIM_INFINITY_BITS);
    __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(input), inverse);
    __m512i bits = _mm512_castps_si512(scaled);
    __m512i exponent = _mm512_and_si512(bits, infinity);
    __m512i above = _mm512_subs_epu16(exponent, smallest);
    __m512i anchor = _mm512_add_epi32(above, first_anchor);
    __m512 rounded = _mm512_add_ps(_mm512_abs_ps(scaled), _mm512_castsi512_ps(anchor));
    __m512i steps = _mm512_sub_epi32(_mm512_castps_si512(rounded), anchor);
    __m512i base = _mm512_srli_epi32(above, 23 - FP8_MANTISSA_BITS);
    return _mm512_ternarylogic_epi32(_mm512_add_epi32(steps, base), _mm512_srli_epi32(bits, 24),
                                     _mm512_set1_epi32(0x80), OR_OF_FIRST_AND_COMMON);
}

CSHIM_AVX2 static void encode_avx2(const float *input, size_t count, uint8_t *payload,
                                   uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t begin = 0;
    for (; begin + FP8_BLOCK <= count; begin += FP8_BLOCK) {
        uint32_t largest = cshim_largest_avx2(input + begin, FP8_BLOCK);
        int exponent = scale_of(largest);
        if (largest >= CSHIM_INFINITY_BITS ||
            !cshim_scale_is_ordinary(exponent, FP8_MAX_EXPONENT)) {
            encode_scalar(input + begin, FP8_BLOCK, payload + begin, scales + begin / FP8_BLOCK);
            continue;
        }
        scales[begin / FP8_BLOCK] = (uint8_t)(exponent - FP8_MIN_SCALE);
        const __m256 inverse = _mm256_set1_ps(cshim_power_of_two(-exponent));
        for (size_t i = begin; i < begin + FP8_BLOCK; i += 32) {
            __m256i low = _mm256_packus_epi32(codes_avx2(input + i, inverse),
                                              codes_avx2(input + i + 8, inverse));
            __m256i high = _mm256_packus_epi32(codes_avx2(input + i + 16, inverse),
                                               codes_avx2(input + i + 24, inverse));
            __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), in_order);
            cshim_store_avx2(payload + i, codes, past_cache);
        }
    }
    encode_scalar(input + begin, count - begin, payload + begin, scales + begin / FP8_BLOCK);
    cshim_end_past_cache(past_cache);
}

/* While a block is encoded the largest magnitude of the next is found, so that the loads from
 * memory and the arithmetic overlap. Returns that magnitude. */
CSHIM_AVX512_INLINE uint32_t encode_block_avx512(const float *input, float inverse, bool has_next,
                                                 uint8_t *payload, bool past_cache)
{
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i magnitude = _mm512_set1_epi32((int)~CSHIM_SIGN_BIT);
    const __m512 scale = _mm512_set1_ps(inverse);
    const float *next = has_next ? input + FP8_BLOCK : input;
    __m512i largest[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                          _mm512_setzero_si512()};
    for (size_t i = 0; i < FP8_BLOCK; i += 64) {
        for (size_t k = 0; k < 4; k++) {
            _mm_prefetch((const char *)(next + i + 16 * k + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
            __m512i bits = _mm512_loadu_si512(next + i + 16 * k);
            largest[k] = _mm512_max_epu32(largest[k], _mm512_and_si512(bits, magnitude));
        }
        __m512i low = _mm512_packus_epi32(codes_avx512(input + i, scale),
                                          codes_avx512(input + i + 16, scale));
        __m512i high = _mm512_packus_epi32(codes_avx512(input + i + 32, scale),
                                           codes_avx512(input + i + 48, scale));
        __m512i codes = _mm512_permutexvar_epi32(in_order, _mm512_packus_epi16(low, high));
        cshim_store_avx512(payload + i, codes, past_cache);
    }
    largest[0] = _mm512_max_epu32(_mm512_max_epu32(largest[0], largest[1]),
                                  _mm512_max_epu32(largest[2], largest[3]));
    return _mm512_reduce_max_epu32(largest[0]);
}

CSHIM_AVX512 static void encode_avx512(const float *input, size_t count, uint8_t *payload,
                                       uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const size_t whole = count / FP8_BLOCK * FP8_BLOCK;
    uint32_t largest = whole > 0 ? cshim_largest_avx512(input, FP8_BLOCK) : 0;
    for (size_t begin = 0; begin < whole; begin += FP8_BLOCK) {
        const bool has_next = begin + FP8_BLOCK < whole;
        int exponent = scale_of(largest);
        if (largest >= CSHIM_INFINITY_BITS ||
            !cshim_scale_is_ordinary(exponent, FP8_MAX_EXPONENT)) {
            encode_scalar(input + begin, FP8_BLOCK, payload + begin, scales + begin / FP8_BLOCK);
            largest = has_next ? cshim_largest_avx512(input + begin + FP8_BLOCK, FP8_BLOCK) : 0;
            continue;
        }
        scales[begin / FP8_BLOCK] = (uint8_t)(exponent - FP8_MIN_SCALE);
        largest = encode_block_avx512(input + begin, cshim_power_of_two(-exponent), has_next,
                                      payload + begin, past_cache);
    }
    encode_scalar(input + whole, count - whole, payload + whole, scales + whole / FP8_BLOCK);
    cshim_end_past_cache(past_cache);
}

/* Codes, one per 16-bit lane, as binary16: an e5m2 code is a binary16's upper byte; an e4m3 code
 * is, with its magnitude one place lower, a binary16 of 1/256 of its value. */
CSHIM_AVX2_INLINE __m256i halves_avx2(__m256i codes)
{
    __m256i upper = _mm256_slli_epi16(codes, 8);
    if (!FP8_IS_E4M3) {
        return upper;
    }
    __m256i magnitude = _mm256_and_si256(_mm256_srli_epi16(upper, 1), _mm256_set1_epi16(0x3f80));
    __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x3f80));
    __m256i sign = _mm256_and_si256(upper, _mm256_set1_epi16((short)0x8000));
    return _mm256_or_si256(_mm256_or_si256(magnitude, sign),
                           _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
}

CSHIM_AVX512_INLINE __m512i halves_avx512(__m512i codes)
{
    __m512i upper = _mm512_slli_epi16(codes, 8);
    if (!FP8_IS_E4M3) {
        return upper;
    }
    const __m512i top = _mm512_set1_epi16(0x3f80);
    __m512i magnitude = _mm512_and_si512(_mm512_srli_epi16(upper, 1), top);
    __mmask32 is_nan = _mm512_cmpeq_epi16_mask(magnitude, top);
    __m512i sign = _mm512_and_si512(upper, _mm512_set1_epi16((short)0x8000));
    return _mm512_mask_mov_epi16(_mm512_or_si512(magnitude, sign), is_nan,
                                 _mm512_set1_epi16(0x7e00));
}

CSHIM_AVX2_INLINE void expand_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                   float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + FP8_BLOCK <= count; begin += FP8_BLOCK) {
        int exponent = scales[begin / FP8_BLOCK] + FP8_MIN_SCALE;
        if (!cshim_scale_is_ordinary(exponent, FP8_MAX_EXPONENT)) {
            expand_scalar(payload + begin, scales + begin / FP8_BLOCK, FP8_BLOCK, output + begin,
                          mode);
            continue;
        }
        const __m256 scale = _mm256_set1_ps(cshim_power_of_two(exponent + 8 * FP8_IS_E4M3));
        for (size_t i = begin; i < begin + FP8_BLOCK; i += 16) {
            __m128i codes = _mm_loadu_si128((const __m128i *)(payload + i));
            __m256i halves = halves_avx2(_mm256_cvtepu8_epi16(codes));
            __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
            __m256 high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
            cshim_put_avx2(output + i, _mm256_mul_ps(low, scale), mode);
            cshim_put_avx2(output + i + 8, _mm256_mul_ps(high, scale), mode);
        }
    }
    expand_scalar(payload + begin, scales + begin / FP8_BLOCK, count - begin, output + begin, mode);
}

CSHIM_AVX512_INLINE void expand_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                       float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + FP8_BLOCK <= count; begin += FP8_BLOCK) {
        int exponent = scales[begin / FP8_BLOCK] + FP8_MIN_SCALE;
        if (!cshim_scale_is_ordinary(exponent, FP8_MAX_EXPONENT)) {
            expand_scalar(payload + begin, scales + begin / FP8_BLOCK, FP8_BLOCK, output + begin,
                          mode);
            continue;
        }
        const __m512 scale = _mm512_set1_ps(cshim_power_of_two(exponent + 8 * FP8_IS_E4M3));
        for (size_t i = begin; i < begin + FP8_BLOCK; i += 32) {
            __m256i codes = _mm256_loadu_si256((const __m256i *)(payload + i));
            __m512i halves = halves_avx512(_mm512_cvtepu8_epi16(codes));
            __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
            __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
            cshim_put_avx512(output + i, _mm512_mul_ps(low, scale), mode);
            cshim_put_avx512(output + i + 16, _mm512_mul_ps(high, scale), mode);
        }
    }
    expand_scalar(payload + begin, scales + begin / FP8_BLOCK, count - begin, output + begin, mode);
}
#endif
