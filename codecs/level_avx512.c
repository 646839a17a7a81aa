/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with AVX-512: F, BW, DQ and VL. */
#include "codecs/portable.h"

#if CSHIM_X86
#include "codecs/vector.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define LEVEL cshim_level_avx512

enum { STEP = 32, NARROWEST_BLOCK = 64 };

/* A vector of constants: one for each lane of 32 bits. */
#define LANES(function, bits)                                                                      \
    _mm512_setr_epi32(function(bits, 0), function(bits, 1), function(bits, 2), function(bits, 3),  \
                      function(bits, 4), function(bits, 5), function(bits, 6), function(bits, 7),  \
                      function(bits, 8), function(bits, 9), function(bits, 10),                    \
                      function(bits, 11), function(bits, 12), function(bits, 13),                  \
                      function(bits, 14), function(bits, 15))

/* Past the cache in halves, because messages are aligned to 32 bytes only. */
INLINE void store(void *output, __m512i bytes, bool past_cache)
{
    if (past_cache) {
        _mm256_stream_si256(output, _mm512_castsi512_si256(bytes));
        _mm256_stream_si256((__m256i *)output + 1, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm512_storeu_si512(output, bytes);
    }
}

/* The largest magnitude's bits among a multiple of 64 floats; NaN and Inf are largest. */
INLINE uint32_t largest_of(const float *input, size_t count)
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

/* Puts values, or the sum of them and what is there, with any NaN made canonical. */
INLINE void put(float *output, __m512 value, enum cshim_put_mode mode)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)CSHIM_NAN_BITS));
    bool is_sum = mode == CSHIM_PUT_SUM;
    __m512 result = is_sum ? _mm512_add_ps(_mm512_loadu_ps(output), value) : value;
    result = _mm512_mask_mov_ps(result, _mm512_cmp_ps_mask(result, result, _CMP_UNORD_Q), nan);
    store(output, _mm512_castps_si512(result), mode == CSHIM_PUT_PAST_CACHE);
}

/* Codes of small floats, one in each 32-bit lane: cshim_minifloat_encode and the sign. The exponent
 * lies in a lane's upper 16 bits, so that the saturating subtraction of 16-bit numbers gives how
 * far it is above the smallest, or 0. */
INLINE __m512i float_codes(struct cshim_format format, __m512 scaled)
{
    enum { OR_OF_FIRST_AND_COMMON = 0xf8 }; /* first | (second & third) */
    const int dropped = 23 - format.mantissa_bits;
    const __m512i smallest = _mm512_set1_epi32((127 + format.min_exponent) << 23);
    const __m512i first_anchor = _mm512_set1_epi32((127 + format.min_exponent + dropped) << 23);
    const __m512i infinity = _mm512_set1_epi32((int)CSHIM_INFINITY_BITS);
    __m512i bits = _mm512_castps_si512(scaled);
    __m512i exponent = _mm512_and_si512(bits, infinity);
    __m512i above = _mm512_subs_epu16(exponent, smallest);
    __m512i anchor = _mm512_add_epi32(above, first_anchor);
    __m512 rounded = _mm512_add_ps(_mm512_abs_ps(scaled), _mm512_castsi512_ps(anchor));
    __m512i steps = _mm512_sub_epi32(_mm512_castps_si512(rounded), anchor);
    __m512i base = _mm512_srli_epi32(above, (unsigned)dropped);
    return _mm512_ternarylogic_epi32(_mm512_add_epi32(steps, base), _mm512_srli_epi32(bits, 24),
                                     _mm512_set1_epi32(0x80), OR_OF_FIRST_AND_COMMON);
}

INLINE __m512i codes_of(struct cshim_format format, const float *input, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(input), inverse);
    return format.family == CSHIM_FAMILY_INTEGER ? _mm512_cvtps_epi32(scaled)
                                                 : float_codes(format, scaled);
}

/* The codes of 64 elements, a byte each. */
INLINE __m512i byte_codes(struct cshim_format format, const float *input, __m512 inverse)
{
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low =
        _mm512_packs_epi32(codes_of(format, input, inverse), codes_of(format, input + 16, inverse));
    __m512i high = _mm512_packs_epi32(codes_of(format, input + 32, inverse),
                                      codes_of(format, input + 48, inverse));
    __m512i bytes = format.family == CSHIM_FAMILY_INTEGER ? _mm512_packs_epi16(low, high)
                                                          : _mm512_packus_epi16(low, high);
    return _mm512_permutexvar_epi32(in_order, bytes);
}

/* Stores the lower bits of 64 bytes without gaps: they are joined by twos, fours and eights, then
 * by halves of 16 bytes, then all. */
INLINE void store_packed(int bits, __m512i codes, uint8_t *payload)
{
    const int gap = 32 - 4 * bits;
    codes = _mm512_and_si512(codes, _mm512_set1_epi8((char)((1 << bits) - 1)));
    codes = _mm512_maddubs_epi16(_mm512_set1_epi16((short)(1 | 1 << (bits + 8))), codes);
    codes = _mm512_madd_epi16(codes, _mm512_set1_epi32(1 | 1 << (16 + 2 * bits)));
    codes = _mm512_sllv_epi32(codes, _mm512_set1_epi64(gap));
    codes = _mm512_srli_epi64(codes, (unsigned)gap);
    codes = _mm512_shuffle_epi8(codes, _mm512_broadcast_i32x4(_mm_setr_epi32(
                                           joined_bytes(bits, 0), joined_bytes(bits, 1),
                                           joined_bytes(bits, 2), joined_bytes(bits, 3))));
    codes = _mm512_permutexvar_epi16(LANES(joined_words, bits), codes);
    _mm512_mask_storeu_epi16(payload, ~(__mmask32)0 >> (32 - 4 * bits), codes);
}

INLINE void encode_block(struct cshim_format format, const float *input, float factor,
                         uint8_t *payload, bool past_cache, bool is_last)
{
    const __m512 inverse = _mm512_set1_ps(factor);
    (void)is_last;
    for (int i = 0; i < format.block && format.bits == 16; i += 32) {
        __m512 low = _mm512_mul_ps(_mm512_loadu_ps(input + i), inverse);
        __m512 high = _mm512_mul_ps(_mm512_loadu_ps(input + i + 16), inverse);
        __m256i first = _mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT);
        __m256i second = _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT);
        store(payload + 2 * i, _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1),
              past_cache);
    }
    for (int i = 0; i < format.block && format.bits <= 8; i += 64) {
        __m512i codes = byte_codes(format, input + i, inverse);
        if (format.bits == 8) {
            store(payload + i, codes, past_cache);
        } else {
            store_packed(format.bits, codes, payload + i / 8 * format.bits);
        }
    }
}

/* The values of 16 integers. */
INLINE __m512 integer_values(struct cshim_format format, const uint8_t *payload, __m512 scale)
{
    const float nan = cshim_bits_float(CSHIM_NAN_BITS);
    const int bits = format.bits;
    if (bits == 4) { /* looked up by the lower bits of each lane */
        const __m512 values = _mm512_mul_ps(
            _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, nan, -7, -6, -5, -4, -3, -2, -1), scale);
        __m512i pairs = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)payload));
        __m512i codes = _mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28));
        return _mm512_permutexvar_ps(codes, values);
    }
    __m512i codes;
    if (bits == 8) {
        codes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)payload));
    } else {
        __m128i bytes = _mm_maskz_loadu_epi8((__mmask16)((1 << 2 * bits) - 1), payload);
        codes = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), LANES(window, bits));
        codes = _mm512_sllv_epi32(codes, LANES(lift, bits));
        codes = _mm512_srai_epi32(codes, (unsigned)(32 - bits));
    }
    __mmask16 is_nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(-format.top - 1));
    return _mm512_mask_mov_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(codes), scale), is_nan,
                              _mm512_set1_ps(nan));
}

/* 32 codes of small floats as binary16: the sign stays, the magnitude moves to where a binary16 has
 * its own. A NaN whose exponent is an
 * ordinary one there is made a NaN of binary16. */
INLINE __m512i halves_of(struct cshim_format format, const uint8_t *payload)
{
    const int shift = 10 - format.mantissa_bits;
    __m256i codes = _mm256_loadu_si256((const __m256i *)payload);
    __m512i halves = _mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), (unsigned)shift);
    if (format.has_infinity) { /* and as many exponent bits */
        return halves;
    }
    halves = _mm512_and_si512(halves, _mm512_set1_epi16((short)(0x8000 | 0x7f << shift)));
    const __m256i sign = _mm256_set1_epi8((char)0x80), all = _mm256_set1_epi8(-1);
    __mmask32 is_nan = _mm256_cmpeq_epi8_mask(_mm256_or_si256(codes, sign), all);
    return _mm512_mask_mov_epi16(halves, is_nan, _mm512_set1_epi16(0x7e00));
}

INLINE void expand_block(struct cshim_format format, const uint8_t *payload, float factor,
                         float *output, enum cshim_put_mode mode)
{
    if (format.family == CSHIM_FAMILY_INTEGER) {
        for (int i = 0; i < format.block; i += 16) {
            put(output + i,
                integer_values(format, payload + i / 8 * format.bits, _mm512_set1_ps(factor)),
                mode);
        }
        return;
    }
    const __m512 scale = _mm512_set1_ps(factor);
    for (int i = 0; i < format.block; i += 32) {
        __m256i low, high;
        if (format.bits == 16) {
            low = _mm256_loadu_si256((const __m256i *)(payload + 2 * i));
            high = _mm256_loadu_si256((const __m256i *)(payload + 2 * i + 32));
        } else {
            __m512i halves = halves_of(format, payload + i);
            low = _mm512_castsi512_si256(halves);
            high = _mm512_extracti64x4_epi64(halves, 1);
        }
        put(output + i, _mm512_mul_ps(_mm512_cvtph_ps(low), scale), mode);
        put(output + i + 16, _mm512_mul_ps(_mm512_cvtph_ps(high), scale), mode);
    }
}

/* The code of each lane, in its lower half. */
INLINE __m512i upper_halves(__m512i bits)
{
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounding = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    return _mm512_srli_epi32(_mm512_add_epi32(bits, rounding), 16);
}

INLINE bool encode_upper(const float *input, uint8_t *payload, bool past_cache)
{
    const __m512i in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i magnitude = _mm512_set1_epi32((int)~CSHIM_SIGN_BIT);
    const __m512i exceptional = _mm512_set1_epi32((int)CSHIM_BF16_EXCEPTIONAL);
    _mm_prefetch((const char *)(input + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
    _mm_prefetch((const char *)(input + 16 + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
    __m512i low = _mm512_loadu_si512(input);
    __m512i high = _mm512_loadu_si512(input + 16);
    __m512i largest =
        _mm512_max_epi32(_mm512_and_si512(low, magnitude), _mm512_and_si512(high, magnitude));
    if (_mm512_cmpge_epi32_mask(largest, exceptional) != 0) {
        return false;
    }
    __m512i codes = _mm512_packus_epi32(upper_halves(low), upper_halves(high));
    store(payload, _mm512_permutexvar_epi64(in_order, codes), past_cache);
    return true;
}

INLINE void expand_upper(struct cshim_format format, const uint8_t *payload, float *output,
                         enum cshim_put_mode mode)
{
    for (int i = 0; i < STEP; i += 16) {
        __m512i bits;
        if (format.bits == 16) {
            __m256i codes = _mm256_loadu_si256((const __m256i *)(payload + 2 * i));
            bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16);
        } else {
            bits = _mm512_loadu_si512(payload + 4 * i);
        }
        put(output + i, _mm512_castsi512_ps(bits), mode);
    }
}

/* AVX2 is wide enough for this. */
TARGET static void narrow_half(const float *input, size_t count, uint8_t *output)
{
    cshim_level_avx2.narrow_half(input, count, output);
}

#include "codecs/arrays.h"
#endif
