/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: what the AVX2 and AVX-512 loops of several formats have in common.
 *
 * The loops treat whole blocks of ordinary numbers. Blocks with a non-finite element or a scale at
 * the ends of the float32 range, and the last, partial block, go to the format's scalar loop, so
 * that the exceptional cases exist once.
 */
#ifndef CSHIM_SIMD_H
#define CSHIM_SIMD_H

#include <stdbool.h>

#include "codecs/kernels.h"
#include "codecs/scalar.h"

/* What becomes of decoded values: replace what is there, the same past the caches, or be added. */
enum cshim_put_mode { CSHIM_PUT, CSHIM_PUT_PAST_CACHE, CSHIM_PUT_SUM };

#if CSHIM_X86
#include <immintrin.h>

#define CSHIM_AVX2 __attribute__((target("avx2,f16c,fma")))
#define CSHIM_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma")))
#define CSHIM_AVX2_INLINE static inline __attribute__((always_inline)) CSHIM_AVX2
#define CSHIM_AVX512_INLINE static inline __attribute__((always_inline)) CSHIM_AVX512

/* How far ahead of the loops, in floats, memory is asked for: the hardware's own prefetching stops
 * at the end of each page. */
#define CSHIM_PREFETCH_FLOATS 2048

/* Arrays of at least this many elements are written past the caches, which would not keep them
 * anyway: that spares the memory reading each line before it is overwritten. Pipelines work on
 * smaller pieces, which do stay in the cache. */
#define CSHIM_PAST_CACHE_COUNT ((size_t)1 << 22)

static inline bool cshim_goes_past_cache(const void *output, size_t count)
{
    return count >= CSHIM_PAST_CACHE_COUNT && (uintptr_t)output % 32 == 0;
}

/* Stores past the cache are ordered with later ones only by a fence. */
static inline void cshim_end_past_cache(bool past_cache)
{
    if (past_cache) {
        _mm_sfence();
    }
}

CSHIM_AVX2_INLINE void cshim_store_avx2(void *output, __m256i bytes, bool past_cache)
{
    if (past_cache) {
        _mm256_stream_si256(output, bytes);
    } else {
        _mm256_storeu_si256(output, bytes);
    }
}

/* Past the cache in halves, because messages are aligned to 32 bytes only. */
CSHIM_AVX512_INLINE void cshim_store_avx512(void *output, __m512i bytes, bool past_cache)
{
    if (past_cache) {
        _mm256_stream_si256(output, _mm512_castsi512_si256(bytes));
        _mm256_stream_si256((__m256i *)output + 1, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm512_storeu_si512(output, bytes);
    }
}

/* The largest magnitude's bits among count floats (a multiple of 32); NaN and Inf are largest. */
CSHIM_AVX2_INLINE uint32_t cshim_largest_avx2(const float *input, size_t count)
{
    const __m256i magnitude = _mm256_set1_epi32((int)~CSHIM_SIGN_BIT);
    __m256i largest[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                          _mm256_setzero_si256()};
    for (size_t i = 0; i < count; i += 32) {
        _mm_prefetch((const char *)(input + i + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
        _mm_prefetch((const char *)(input + i + 16 + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
        for (size_t k = 0; k < 4; k++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(input + i + 8 * k));
            largest[k] = _mm256_max_epu32(largest[k], _mm256_and_si256(bits, magnitude));
        }
    }
    largest[0] = _mm256_max_epu32(_mm256_max_epu32(largest[0], largest[1]),
                                  _mm256_max_epu32(largest[2], largest[3]));
    __m128i half =
        _mm_max_epu32(_mm256_castsi256_si128(largest[0]), _mm256_extracti128_si256(largest[0], 1));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(half);
}

/* The same for a multiple of 64 floats. */
CSHIM_AVX512_INLINE uint32_t cshim_largest_avx512(const float *input, size_t count)
{
    const __m512i magnitude = _mm512_set1_epi32((int)~CSHIM_SIGN_BIT);
    __m512i largest[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                          _mm512_setzero_si512()};
    for (size_t i = 0; i < count; i += 64) {
        for (size_t k = 0; k < 4; k++) {
            _mm_prefetch((const char *)(input + i + 16 * k + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
            __m512i bits = _mm512_loadu_si512(input + i + 16 * k);
            largest[k] = _mm512_max_epu32(largest[k], _mm512_and_si512(bits, magnitude));
        }
    }
    largest[0] = _mm512_max_epu32(_mm512_max_epu32(largest[0], largest[1]),
                                  _mm512_max_epu32(largest[2], largest[3]));
    return _mm512_reduce_max_epu32(largest[0]);
}

CSHIM_AVX2_INLINE __m256 cshim_canonical_avx2(__m256 value)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

CSHIM_AVX512_INLINE __m512 cshim_canonical_avx512(__m512 value)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)CSHIM_NAN_BITS));
    return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), nan);
}

/* Puts a value, or the sum of it and what is there, with any NaN made canonical. */
CSHIM_AVX2_INLINE void cshim_put_avx2(float *output, __m256 value, enum cshim_put_mode mode)
{
    bool is_sum = mode == CSHIM_PUT_SUM;
    __m256 result = is_sum ? _mm256_add_ps(_mm256_loadu_ps(output), value) : value;
    __m256i bits = _mm256_castps_si256(cshim_canonical_avx2(result));
    cshim_store_avx2(output, bits, mode == CSHIM_PUT_PAST_CACHE);
}

CSHIM_AVX512_INLINE void cshim_put_avx512(float *output, __m512 value, enum cshim_put_mode mode)
{
    bool is_sum = mode == CSHIM_PUT_SUM;
    __m512 result = is_sum ? _mm512_add_ps(_mm512_loadu_ps(output), value) : value;
    __m512i bits = _mm512_castps_si512(cshim_canonical_avx512(result));
    cshim_store_avx512(output, bits, mode == CSHIM_PUT_PAST_CACHE);
}
#endif

/* Whether a power-of-two scale is one that the SIMD loops multiply by: it and its reciprocal are
 * normal floats, and the format's top code times it is finite. */
static inline bool cshim_scale_is_ordinary(int exponent, int max_exponent)
{
    return exponent >= -126 && exponent + max_exponent <= 127;
}

/* The scalar counterpart of cshim_put_avx2. */
static inline void cshim_put(float *output, float value, enum cshim_put_mode mode)
{
    *output = mode == CSHIM_PUT_SUM ? cshim_sum(*output, value) : value;
}

/* Defines a format's table from its encode_LEVEL and expand_LEVEL, where
 * expand_LEVEL(payload, scales, count, output, mode) is an inline function that puts all values. */
#define CSHIM_DEFINE_ADD(target, level)                                                            \
    target static void add_##level(const uint8_t *payload, const uint8_t *scales, size_t count,    \
                                   float *sum)                                                     \
    {                                                                                              \
        expand_##level(payload, scales, count, sum, CSHIM_PUT_SUM);                                \
    }

#define CSHIM_DEFINE_SCALAR_DECODE                                                                 \
    static void decode_scalar(const uint8_t *payload, const uint8_t *scales, size_t count,         \
                              float *output)                                                       \
    {                                                                                              \
        expand_scalar(payload, scales, count, output, CSHIM_PUT);                                  \
    }

#define CSHIM_DEFINE_SIMD_DECODE(target, level)                                                    \
    target static void decode_##level(const uint8_t *payload, const uint8_t *scales, size_t count, \
                                      float *output)                                               \
    {                                                                                              \
        if (cshim_goes_past_cache(output, count)) {                                                \
            expand_##level(payload, scales, count, output, CSHIM_PUT_PAST_CACHE);                  \
            cshim_end_past_cache(true);                                                            \
        } else {                                                                                   \
            expand_##level(payload, scales, count, output, CSHIM_PUT);                             \
        }                                                                                          \
    }

#if CSHIM_X86
#define CSHIM_DEFINE_KERNELS(table)                                                                \
    CSHIM_DEFINE_SCALAR_DECODE                                                                     \
    CSHIM_DEFINE_ADD(, scalar)                                                                     \
    CSHIM_DEFINE_SIMD_DECODE(CSHIM_AVX2, avx2)                                                     \
    CSHIM_DEFINE_ADD(CSHIM_AVX2, avx2)                                                             \
    CSHIM_DEFINE_SIMD_DECODE(CSHIM_AVX512, avx512)                                                 \
    CSHIM_DEFINE_ADD(CSHIM_AVX512, avx512)                                                         \
    const struct cshim_kernels table[CSHIM_LEVELS] = {                                             \
        {encode_scalar, decode_scalar, add_scalar},                                                \
        {encode_avx2, decode_avx2, add_avx2},                                                      \
        {encode_avx512, decode_avx512, add_avx512},                                                \
    };
#else
#define CSHIM_DEFINE_KERNELS(table)                                                                \
    CSHIM_DEFINE_SCALAR_DECODE                                                                     \
    CSHIM_DEFINE_ADD(, scalar)                                                                     \
    const struct cshim_kernels table[CSHIM_LEVELS] = {                                             \
        {encode_scalar, decode_scalar, add_scalar},                                                \
    };
#endif

#endif
