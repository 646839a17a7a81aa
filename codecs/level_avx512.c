/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with AVX-512 (F, BW, DQ and VL): defines the operations that codecs/vector.h needs. */
#define CSHIM_WIDE_VECTORS
#include "codecs/portable.h"

#if CSHIM_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma")))
#define LEVEL cshim_level_avx512
#define INLINE CSHIM_INLINE TARGET

typedef __m512i ints;
typedef __m512 floats;
typedef __m256i half;
enum { LANES = 16 };

#define V(operation) _mm512_##operation
#define EACH_LANE(f, a)                                                                            \
    _mm512_setr_epi32(f(a, 0), f(a, 1), f(a, 2), f(a, 3), f(a, 4), f(a, 5), f(a, 6), f(a, 7),      \
                      f(a, 8), f(a, 9), f(a, 10), f(a, 11), f(a, 12), f(a, 13), f(a, 14),          \
                      f(a, 15))
#define LOAD(at) _mm512_loadu_si512(at)
#define LOAD_HALF(at) _mm256_loadu_si256((const __m256i *)(at))
#define LOAD_QUARTER(at) _mm_loadu_si128((const __m128i *)(at))
#define LOWER_HALF(vector) _mm512_castsi512_si256(vector)
#define UPPER_HALF(vector) _mm512_extracti64x4_epi64(vector, 1)
#define JOIN(lower, upper) _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1)
#define REPEAT(bytes) _mm512_broadcast_i32x4(bytes)
#define PERMUTE(vector, lanes) _mm512_permutexvar_epi32(lanes, vector)
#define ANY_GREATER(a, b) (_mm512_cmpgt_epi32_mask(a, b) != 0)
#define KEEP_UP_TO(values, a, b) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ), values)
#define REPLACE_NANS(values, nan)                                                                  \
    _mm512_mask_mov_ps(values, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q), nan)
#define REPLACE_CODE(values, codes, code, nan)                                                     \
    _mm512_mask_mov_ps(values, _mm512_cmpeq_epi32_mask(codes, code), nan)
/* Returns codes | (upper bytes of the floats & 0x80); one instruction for both operations. */
#define WITH_SIGN(codes, values)                                                                   \
    _mm512_ternarylogic_epi32(codes, _mm512_srli_epi32((ints)(values), 24),                        \
                              _mm512_set1_epi32(0x80), 0xf8)
#define LOOK_UP(table, indices) _mm512_permutexvar_ps(indices, table)

/* Stores a vector; past the cache in halves, because the output is only known to be 32-byte
 * aligned. */
INLINE void store(void *output, ints bytes, bool past_cache)
{
    if (past_cache) {
        _mm256_stream_si256(output, LOWER_HALF(bytes));
        _mm256_stream_si256((half *)output + 1, UPPER_HALF(bytes));
    } else {
        _mm512_storeu_si512(output, bytes);
    }
}

INLINE uint32_t largest_lane(ints vector)
{
    return _mm512_reduce_max_epu32(vector);
}

/* Returns lane i of the permutation that closes the gap after the codes of each 16 bytes: the
 * indices of two 16-bit words, the first one in the lower half. */
CSHIM_INLINE int words_of_all(int bits, int i)
{
    const int first = 2 * i, second = 2 * i + 1;
    return (first / bits * 8 + first % bits) | (second / bits * 8 + second % bits) << 16;
}

INLINE void store_joined(int bits, ints codes, uint8_t *payload, bool is_last)
{
    (void)is_last; /* never writes after the codes */
    codes = _mm512_permutexvar_epi16(EACH_LANE(words_of_all, bits), codes);
    _mm512_mask_storeu_epi16(payload, ~(__mmask32)0 >> (32 - 4 * bits), codes);
}

#include "codecs/vector.h"
#endif
