/* SPDX-License-Identifier: Apache-2.0 */
/* bf16: the upper half of a float32, rounded to nearest even; no scale. */
#include "codecs/simd.h"

/* From here on a magnitude rounds up to infinity, or is not finite. */
#define EXCEPTIONAL 0x7f7f8000u

static void encode_scalar(const float *input, size_t count, uint8_t *payload, uint8_t *scales)
{
    (void)scales;
    for (size_t i = 0; i < count; i++) {
        uint16_t code = cshim_bf16_encode(input[i]);
        memcpy(payload + 2 * i, &code, 2);
    }
}

static inline void expand_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,
                                 float *output, enum cshim_put_mode mode)
{
    (void)scales;
    for (size_t i = 0; i < count; i++) {
        uint16_t code;
        memcpy(&code, payload + 2 * i, 2);
        cshim_put(output + i, cshim_bf16_decode(code), mode);
    }
}

#if CSHIM_X86
/* The code of each lane, in its lower half. */
CSHIM_AVX2_INLINE __m256i codes_avx2(__m256i bits)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounding = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, rounding), 16);
}

CSHIM_AVX512_INLINE __m512i codes_avx512(__m512i bits)
{
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounding = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    return _mm512_srli_epi32(_mm512_add_epi32(bits, rounding), 16);
}

CSHIM_AVX2 static void encode_avx2(const float *input, size_t count, uint8_t *payload,
                                   uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const __m256i magnitude = _mm256_set1_epi32((int)~CSHIM_SIGN_BIT);
    const __m256i ordinary = _mm256_set1_epi32((int)EXCEPTIONAL - 1);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        _mm_prefetch((const char *)(input + i + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
        __m256i low = _mm256_loadu_si256((const __m256i *)(input + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(input + i + 8));
        __m256i largest =
            _mm256_max_epi32(_mm256_and_si256(low, magnitude), _mm256_and_si256(high, magnitude));
        if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, ordinary)) != 0) {
            encode_scalar(input + i, 16, payload + 2 * i, scales);
            continue;
        }
        __m256i codes = _mm256_packus_epi32(codes_avx2(low), codes_avx2(high));
        cshim_store_avx2(payload + 2 * i, _mm256_permute4x64_epi64(codes, 0xd8), past_cache);
    }
    encode_scalar(input + i, count - i, payload + 2 * i, scales);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX512 static void encode_avx512(const float *input, size_t count, uint8_t *payload,
                                       uint8_t *scales)
{
    const bool past_cache = cshim_goes_past_cache(payload, count);
    const __m512i in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i magnitude = _mm512_set1_epi32((int)~CSHIM_SIGN_BIT);
    const __m512i exceptional = _mm512_set1_epi32((int)EXCEPTIONAL);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        _mm_prefetch((const char *)(input + i + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
        _mm_prefetch((const char *)(input + i + 16 + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
        __m512i low = _mm512_loadu_si512(input + i);
        __m512i high = _mm512_loadu_si512(input + i + 16);
        __m512i largest =
            _mm512_max_epi32(_mm512_and_si512(low, magnitude), _mm512_and_si512(high, magnitude));
        if (_mm512_cmpge_epi32_mask(largest, exceptional) != 0) {
            encode_scalar(input + i, 32, payload + 2 * i, scales);
            continue;
        }
        __m512i codes = _mm512_packus_epi32(codes_avx512(low), codes_avx512(high));
        cshim_store_avx512(payload + 2 * i, _mm512_permutexvar_epi64(in_order, codes), past_cache);
    }
    encode_scalar(input + i, count - i, payload + 2 * i, scales);
    cshim_end_past_cache(past_cache);
}

CSHIM_AVX2_INLINE void expand_avx2(const uint8_t *payload, const uint8_t *scales, size_t count,
                                   float *output, enum cshim_put_mode mode)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i codes = _mm_loadu_si128((const __m128i *)(payload + 2 * i));
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16);
        cshim_put_avx2(output + i, _mm256_castsi256_ps(bits), mode);
    }
    expand_scalar(payload + 2 * i, scales, count - i, output + i, mode);
}

CSHIM_AVX512_INLINE void expand_avx512(const uint8_t *payload, const uint8_t *scales, size_t count,
                                       float *output, enum cshim_put_mode mode)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i codes = _mm256_loadu_si256((const __m256i *)(payload + 2 * i));
        __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16);
        cshim_put_avx512(output + i, _mm512_castsi512_ps(bits), mode);
    }
    expand_scalar(payload + 2 * i, scales, count - i, output + i, mode);
}
#endif

CSHIM_DEFINE_KERNELS(cshim_bf16_kernels)
