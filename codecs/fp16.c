/* SPDX-License-Identifier: Apache-2.0 */
/* fp16: IEEE binary16 with one power-of-two scale per 256 elements. */
#include "codecs/simd.h"

enum { BLOCK = CSHIM_FP16_BLOCK };

static int scale_of(uint32_t largest)
{
    return cshim_scale_exponent(largest, CSHIM_FP16_BUMP, CSHIM_FP16_MAX_EXPONENT,
                                CSHIM_FP16_MIN_SCALE);
}

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        uint32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            uint32_t magnitude = cshim_finite_magnitude(input[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        int exponent = scale_of(largest);
        scales[begin / BLOCK] = (uint8_t)(exponent - CSHIM_FP16_MIN_SCALE);
        for (size_t i = begin; i < end; i++) {
            uint16_t code = cshim_fp16_encode(input[i], exponent);
            memcpy(payload + 2 * i, &code, 2);
        }
    }
}

static inline void expand_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                                 float *output, enum cshim_put_mode mode)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t code;
        memcpy(&code, payload + 2 * i, 2);
        int exponent = scales[i / BLOCK] + CSHIM_FP16_MIN_SCALE;
        cshim_put(output + i, cshim_fp16_decode(code, exponent), mode);
    }
}

static void narrow_scalar(const float *input, size_t count, uint8_t *output)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = cshim_half_from_float(input[i]);
        memcpy(output + 2 * i, &half, 2);
    }
}

#if CSHIM_X86
CSHIM_AVX2_INLINE __m128i codes_avx2(const float *input, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(input), inverse);
    return _mm256_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT);
}

CSHIM_AVX512_INLINE __m256i codes_avx512(const float *input, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(input), inverse);
    return _mm512_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT);
}

CSHIM_AVX2 static void encode_avx2(const float *input, size_t count, uint8_t *payload,
                                   uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        uint32_t largest = cshim_largest_avx2(input + begin, BLOCK);
        int exponent = scale_of(largest);
        if (largest >= CSHIM_INFINITY_BITS) {
            encode_scalar(input + begin, BLOCK, payload + 2 * begin, scales + begin / BLOCK);
            continue;
        }
        scales[begin / BLOCK] = (uint8_t)(exponent - CSHIM_FP16_MIN_SCALE);
        const __m256 inverse = _mm256_set1_ps(cshim_power_of_two(-exponent));
        for (size_t i = begin; i < begin + BLOCK; i += 16) {
            __m128i low = codes_avx2(input + i, inverse);
            __m128i high = codes_avx2(input + i + 8, inverse);
            cshim_store_avx2(payload + 2 * i, _mm256_setr_m128i(low, high), past_cache);
        }
    }
    encode_scalar(input + begin, count - begin, payload + 2 * begin, scales + begin / BLOCK);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX512 static void encode_avx512(const float *input, size_t count, uint8_t *payload,
                                       uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        uint32_t largest = cshim_largest_avx512(input + begin, BLOCK);
        int exponent = scale_of(largest);
        if (largest >= CSHIM_INFINITY_BITS) {
            encode_scalar(input + begin, BLOCK, payload + 2 * begin, scales + begin / BLOCK);
            continue;
        }
        scales[begin / BLOCK] = (uint8_t)(exponent - CSHIM_FP16_MIN_SCALE);
        const __m512 inverse = _mm512_set1_ps(cshim_power_of_two(-exponent));
        for (size_t i = begin; i < begin + BLOCK; i += 32) {
            __m512i low = _mm512_castsi256_si512(codes_avx512(input + i, inverse));
            __m256i high = codes_avx512(input + i + 16, inverse);
            cshim_store_avx512(payload + 2 * i, _mm512_inserti64x4(low, high, 1), past_cache);
        }
    }
    encode_scalar(input + begin, count - begin, payload + 2 * begin, scales + begin / BLOCK);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX2_INLINE void expand_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                   float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        int exponent = scales[begin / BLOCK] + CSHIM_FP16_MIN_SCALE;
        if (!cshim_scale_is_ordinary(exponent, CSHIM_FP16_MAX_EXPONENT)) {
            expand_scalar(payload + 2 * begin, scales + begin / BLOCK, BLOCK, output + begin, mode);
            continue;
        }
        const __m256 scale = _mm256_set1_ps(cshim_power_of_two(exponent));
        for (size_t i = begin; i < begin + BLOCK; i += 8) {
            __m128i codes = _mm_loadu_si128((const __m128i *)(payload + 2 * i));
            cshim_put_avx2(output + i, _mm256_mul_ps(_mm256_cvtph_ps(codes), scale), mode);
        }
    }
    expand_scalar(payload + 2 * begin, scales + begin / BLOCK, count - begin, output + begin, mode);
}

CSHIM_AVX512_INLINE void expand_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                       float *output, enum cshim_put_mode mode)
{
    size_t begin = 0;
    for (; begin + BLOCK <= count; begin += BLOCK) {
        int exponent = scales[begin / BLOCK] + CSHIM_FP16_MIN_SCALE;
        if (!cshim_scale_is_ordinary(exponent, CSHIM_FP16_MAX_EXPONENT)) {
            expand_scalar(payload + 2 * begin, scales + begin / BLOCK, BLOCK, output + begin, mode);
            continue;
        }
        const __m512 scale = _mm512_set1_ps(cshim_power_of_two(exponent));
        for (size_t i = begin; i < begin + BLOCK; i += 16) {
            __m256i codes = _mm256_loadu_si256((const __m256i *)(payload + 2 * i));
            cshim_put_avx512(output + i, _mm512_mul_ps(_mm512_cvtph_ps(codes), scale), mode);
        }
    }
    expand_scalar(payload + 2 * begin, scales + begin / BLOCK, count - begin, output + begin, mode);
}

CSHIM_AVX2 static void narrow_avx2(const float *input, size_t count, uint8_t *output)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 value = cshim_canonical_avx2(_mm256_loadu_ps(input + i));
        _mm_storeu_si128((__m128i *)(output + 2 * i),
                         _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }
    narrow_scalar(input + i, count - i, output + 2 * i);
}
#endif

CSHIM_DEFINE_KERNELS(cshim_fp16_kernels)

cshim_half_narrow *const cshim_half_narrow_kernels[CSHIM_LEVELS] = {
    narrow_scalar,
#if CSHIM_X86
    narrow_avx2,
    narrow_avx2,
#endif
};
