/* SPDX-License-Identifier: Apache-2.0 */
/* int4: integers from -7 to 7, two in a byte, with one 16-bit scale per 32 elements. */
#include "codecs/integer.h"

enum { BLOCK = CSHIM_INT4_BLOCK, BLOCK_BYTES = BLOCK / 2 };

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        uint32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            uint32_t magnitude = cshim_finite_magnitude(input[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        uint16_t scale = cshim_int4_scale(largest);
        struct cshim_integer_scaling scaling = cshim_integer_scaling(scale);
        cshim_store_scale(scales, begin / BLOCK, scale);
        for (size_t i = begin; i < end; i += 2) {
            unsigned low = cshim_int4_encode(input[i], scaling);
            unsigned high = i + 1 < end ? cshim_int4_encode(input[i + 1], scaling) : 0;
            payload[i / 2] = (uint8_t)(low | high << 4);
        }
    }
}

static inline void expand_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                                 float *output, enum cshim_put_mode mode)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t scale = cshim_load_scale(scales, i / BLOCK);
        uint8_t code = payload[i / 2] >> (i % 2 * 4) & 15;
        cshim_put(output + i, cshim_int4_decode(code, scale), mode);
    }
}

#if CSHIM_X86
/* 32 codes as bytes, in order. */
CSHIM_AVX2_INLINE __m256i codes_avx2(const float *input, __m256 inverse)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i codes[4];
    for (size_t k = 0; k < 4; k++) {
        codes[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(input + 8 * k), inverse));
    }
    __m256i low = _mm256_packs_epi32(codes[0], codes[1]);
    __m256i high = _mm256_packs_epi32(codes[2], codes[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), in_order);
}

CSHIM_AVX2_INLINE void encode_blocks(const float *input, size_t count, uint8_t *payload,
                                     uint8_t *scales)
{
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        uint32_t largest = cshim_largest_avx2(input + begin, BLOCK);
        uint16_t scale = cshim_int4_scale(largest);
        if (largest >= CSHIM_INFINITY_BITS || !cshim_scale_is_plain(scale)) {
            encode_scalar(input + begin, BLOCK, payload + begin / 2, scales + begin / BLOCK * 2);
            continue;
        }
        cshim_store_scale(scales, begin / BLOCK, scale);
        __m256i codes =
            codes_avx2(input + begin, _mm256_set1_ps(cshim_integer_scaling(scale).inverse));
        codes = _mm256_and_si256(codes, _mm256_set1_epi8(15));
        codes = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(1 | 16 << 8));
        __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
        _mm_storeu_si128((__m128i *)(payload + begin / 2), bytes);
    }
    encode_scalar(input + begin, count - begin, payload + begin / 2, scales + begin / BLOCK * 2);
}

CSHIM_AVX2 static void encode_avx2(const float *input, size_t count, uint8_t *payload,
                                   uint8_t *scales)
{
    encode_blocks(input, count, payload, scales);
}

/* The same: the time goes into the scale of each 32 elements, which wider vectors do not shorten.
 */
CSHIM_AVX512 static void encode_avx512(const float *input, size_t count, uint8_t *payload,
                                       uint8_t *scales)
{
    encode_blocks(input, count, payload, scales);
}

/* The values of the 16 codes at one scale, looked up by the lower four bits of each lane. */
CSHIM_AVX2_INLINE __m256 values_avx2(const uint8_t *payload, __m256 positive, __m256 negative)
{
    int bytes;
    memcpy(&bytes, payload, sizeof bytes);
    __m256i pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    __m256i codes = _mm256_or_si256(pairs, _mm256_slli_epi64(pairs, 28));
    __m256i sign = _mm256_slli_epi32(codes, 28);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(positive, codes),
                            _mm256_permutevar8x32_ps(negative, codes), _mm256_castsi256_ps(sign));
}

CSHIM_AVX512_INLINE __m512 values_avx512(const uint8_t *payload, __m512 values)
{
    __m512i pairs = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)payload));
    __m512i codes = _mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28));
    return _mm512_permutexvar_ps(codes, values);
}

CSHIM_AVX2_INLINE void expand_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                   float *output, enum cshim_put_mode mode)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        float ordinary = cshim_plain_scale(cshim_load_scale(scales, begin / BLOCK));
        if (ordinary == 0.0f) {
            expand_scalar(payload + begin / 2, scales + begin / BLOCK * 2, BLOCK, output + begin,
                          mode);
            continue;
        }
        const __m256 scale = _mm256_set1_ps(ordinary);
        const __m256 positive = _mm256_mul_ps(_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), scale);
        const __m256 negative = _mm256_blend_ps(
            _mm256_sub_ps(positive, _mm256_mul_ps(_mm256_set1_ps(8), scale)), nan, 1);
        for (size_t i = begin; i < begin + BLOCK; i += 8) {
            cshim_put_avx2(output + i, values_avx2(payload + i / 2, positive, negative), mode);
        }
    }
    expand_scalar(payload + begin / 2, scales + begin / BLOCK * 2, count - begin, output + begin,
                  mode);
}

CSHIM_AVX512_INLINE void expand_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                       float *output, enum cshim_put_mode mode)
{
    const float nan = cshim_bits_float(CSHIM_NAN_BITS);
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, nan, -7, -6, -5, -4, -3, -2, -1);
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        float ordinary = cshim_plain_scale(cshim_load_scale(scales, begin / BLOCK));
        if (ordinary == 0.0f) {
            expand_scalar(payload + begin / 2, scales + begin / BLOCK * 2, BLOCK, output + begin,
                          mode);
            continue;
        }
        const __m512 values = _mm512_mul_ps(codes, _mm512_set1_ps(ordinary));
        cshim_put_avx512(output + begin, values_avx512(payload + begin / 2, values), mode);
        cshim_put_avx512(output + begin + 16, values_avx512(payload + begin / 2 + 8, values), mode);
    }
    expand_scalar(payload + begin / 2, scales + begin / BLOCK * 2, count - begin, output + begin,
                  mode);
}
#endif

CSHIM_DEFINE_KERNELS(cshim_int4_kernels)
