/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with AVX2: defines the operations that codecs/vector.h needs. */
#define CSHIM_WIDE_VECTORS
#include "codecs/portable.h"

#if CSHIM_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c,fma")))
#define LEVEL cshim_level_avx2
#define INLINE CSHIM_INLINE TARGET

typedef __m256i ints;
typedef __m256 floats;
typedef __m128i half;
enum { LANES = 8 };

#define V(operation) _mm256_##operation
#define EACH_LANE(f, a)                                                                            \
    _mm256_setr_epi32(f(a, 0), f(a, 1), f(a, 2), f(a, 3), f(a, 4), f(a, 5), f(a, 6), f(a, 7))
#define LOAD(at) _mm256_loadu_si256((const __m256i *)(at))
#define LOAD_HALF(at) _mm_loadu_si128((const __m128i *)(at))
#define LOAD_QUARTER(at) _mm_loadl_epi64((const __m128i *)(at))
#define LOWER_HALF(vector) _mm256_castsi256_si128(vector)
#define UPPER_HALF(vector) _mm256_extracti128_si256(vector, 1)
#define JOIN(lower, upper) _mm256_setr_m128i(lower, upper)
#define REPEAT(bytes) _mm256_broadcastsi128_si256(bytes)
#define PERMUTE(vector, lanes) _mm256_permutevar8x32_epi32(vector, lanes)
#define ANY_GREATER(a, b) (_mm256_movemask_epi8(_mm256_cmpgt_epi32(a, b)) != 0)
#define KEEP_UP_TO(values, a, b) _mm256_and_ps(values, _mm256_cmp_ps(a, b, _CMP_LE_OQ))
#define REPLACE_NANS(values, nan)                                                                  \
    _mm256_blendv_ps(values, nan, _mm256_cmp_ps(values, values, _CMP_UNORD_Q))
#define REPLACE_CODE(values, codes, code, nan)                                                     \
    _mm256_blendv_ps(values, nan, (floats)_mm256_cmpeq_epi32(codes, code))
#define WITH_SIGN(codes, values)                                                                   \
    ((codes) | _mm256_srli_epi32((ints)_mm256_and_ps(values, _mm256_set1_ps(-0.0f)), 24))

INLINE void store(void *output, ints bytes, bool past_cache)
{
    if (past_cache)
        _mm256_stream_si256(output, bytes);
    else
        _mm256_storeu_si256(output, bytes);
}

INLINE uint32_t largest_lane(ints vector)
{
    half largest = _mm_max_epu32(LOWER_HALF(vector), UPPER_HALF(vector));
    largest = _mm_max_epu32(largest, _mm_shuffle_epi32(largest, 0x4e));
    largest = _mm_max_epu32(largest, _mm_shuffle_epi32(largest, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(largest);
}

/* Stores 32 codes without gaps: those in the first 2 * bits bytes of each half of `codes`. With 4
 * bits stores only these bytes. Otherwise stores both halves whole, each directly after the codes
 * stored before, so that each store overwrites the surplus bytes of the previous one. Stores the
 * codes alone if no codes follow, or if those that follow are too short (fewer than 3 bits) to
 * overwrite all surplus bytes. */
INLINE void store_joined(int bits, ints codes, uint8_t *payload, bool is_last)
{
    if (bits == 4) {
        codes = _mm256_permute4x64_epi64(codes, 0x08);
        _mm_storeu_si128((half *)payload, LOWER_HALF(codes));
        return;
    }
    uint8_t bytes[32];
    is_last = is_last || 6 * bits < 16; /* the next codes would not overwrite all */
    uint8_t *to = is_last ? bytes : payload;
    _mm_storeu_si128((half *)to, LOWER_HALF(codes));
    _mm_storeu_si128((half *)(to + 2 * bits), UPPER_HALF(codes));
    if (is_last)
        memcpy(payload, bytes, 4 * (size_t)bits);
}

#include "codecs/vector.h"
#endif
