/* SPDX-License-Identifier: Apache-2.0 */
/* int8: integers from -127 to 127 with one 16-bit scale per 64 elements. */
#include "codecs/integer.h"

enum { BLOCK = CSHIM_INT8_BLOCK };

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        uint32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            uint32_t magnitude = cshim_finite_magnitude(input[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        uint16_t scale = cshim_int8_scale(largest);
        struct cshim_integer_scaling scaling = cshim_integer_scaling(scale);
        cshim_store_scale(scales, begin / BLOCK, scale);
        for (size_t i = begin; i < end; i++) {
            payload[i] = (uint8_t)cshim_int8_encode(input[i], scaling);
        }
    }
}

static inline void expand_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                                 float *output, enum cshim_put_mode mode)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t scale = cshim_load_scale(scales, i / BLOCK);
        cshim_put(output + i, cshim_int8_decode((int8_t)payload[i], scale), mode);
    }
}

#if CSHIM_X86
CSHIM_AVX2_INLINE __m256i codes_avx2(const float *input, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(input), inverse));
}

CSHIM_AVX512_INLINE __m512i codes_avx512(const float *input, __m512 inverse)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(input), inverse));
}

CSHIM_AVX2 static void encode_avx2(const float *input, size_t count, uint8_t *payload,
                                   uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        uint32_t largest = cshim_largest_avx2(input + begin, BLOCK);
        uint16_t scale = cshim_int8_scale(largest);
        if (largest >= CSHIM_INFINITY_BITS || !cshim_scale_is_plain(scale)) {
            encode_scalar(input + begin, BLOCK, payload + begin, scales + begin / BLOCK * 2);
            continue;
        }
        cshim_store_scale(scales, begin / BLOCK, scale);
        const __m256 inverse = _mm256_set1_ps(cshim_integer_scaling(scale).inverse);
        for (size_t i = begin; i < begin + BLOCK; i += 32) {
            __m256i low = _mm256_packs_epi32(codes_avx2(input + i, inverse),
                                             codes_avx2(input + i + 8, inverse));
            __m256i high = _mm256_packs_epi32(codes_avx2(input + i + 16, inverse),
                                              codes_avx2(input + i + 24, inverse));
            __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), in_order);
            cshim_store_avx2(payload + i, codes, past_cache);
        }
    }
    encode_scalar(input + begin, count - begin, payload + begin, scales + begin / BLOCK * 2);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX512 static void encode_avx512(const float *input, size_t count, uint8_t *payload,
                                       uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        uint32_t largest = cshim_largest_avx512(input + i, BLOCK);
        uint16_t scale = cshim_int8_scale(largest);
        if (largest >= CSHIM_INFINITY_BITS || !cshim_scale_is_plain(scale)) {
            encode_scalar(input + i, BLOCK, payload + i, scales + i / BLOCK * 2);
            continue;
        }
        cshim_store_scale(scales, i / BLOCK, scale);
        const __m512 inverse = _mm512_set1_ps(cshim_integer_scaling(scale).inverse);
        __m512i low = _mm512_packs_epi32(codes_avx512(input + i, inverse),
                                         codes_avx512(input + i + 16, inverse));
        __m512i high = _mm512_packs_epi32(codes_avx512(input + i + 32, inverse),
                                          codes_avx512(input + i + 48, inverse));
        __m512i codes = _mm512_permutexvar_epi32(in_order, _mm512_packs_epi16(low, high));
        cshim_store_avx512(payload + i, codes, past_cache);
    }
    encode_scalar(input + i, count - i, payload + i, scales + i / BLOCK * 2);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX2_INLINE __m256 values_avx2(const uint8_t *payload, __m256 scale)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    __m256i codes = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)payload));
    __m256i is_nan = _mm256_cmpeq_epi32(codes, _mm256_set1_epi32(CSHIM_INT8_NAN));
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(codes), scale);
    return _mm256_blendv_ps(value, nan, _mm256_castsi256_ps(is_nan));
}

CSHIM_AVX512_INLINE __m512 values_avx512(const uint8_t *payload, __m512 scale)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)CSHIM_NAN_BITS));
    __m512i codes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)payload));
    __mmask16 is_nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(CSHIM_INT8_NAN));
    return _mm512_mask_mov_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(codes), scale), is_nan, nan);
}

CSHIM_AVX2_INLINE void expand_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                   float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        float ordinary = cshim_plain_scale(cshim_load_scale(scales, begin / BLOCK));
        if (ordinary == 0.0f) {
            expand_scalar(payload + begin, scales + begin / BLOCK * 2, BLOCK, output + begin, mode);
            continue;
        }
        const __m256 scale = _mm256_set1_ps(ordinary);
        for (size_t i = begin; i < begin + BLOCK; i += 8) {
            cshim_put_avx2(output + i, values_avx2(payload + i, scale), mode);
        }
    }
    expand_scalar(payload + begin, scales + begin / BLOCK * 2, count - begin, output + begin, mode);
}

CSHIM_AVX512_INLINE void expand_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                       float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        float ordinary = cshim_plain_scale(cshim_load_scale(scales, begin / BLOCK));
        if (ordinary == 0.0f) {
            expand_scalar(payload + begin, scales + begin / BLOCK * 2, BLOCK, output + begin, mode);
            continue;
        }
        const __m512 scale = _mm512_set1_ps(ordinary);
        for (size_t i = begin; i < begin + BLOCK; i += 16) {
            cshim_put_avx512(output + i, values_avx512(payload + i, scale), mode);
        }
    }
    expand_scalar(payload + begin, scales + begin / BLOCK * 2, count - begin, output + begin, mode);
}
#endif

CSHIM_DEFINE_KERNELS(cshim_int8_kernels)
