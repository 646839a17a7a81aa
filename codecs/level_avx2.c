/* SPDX-License-Identifier: Apache-2.0 */
/* The loops with AVX2. */
#include "codecs/portable.h"

#if CSHIM_X86
#include "codecs/vector.h"

#define TARGET __attribute__((target("avx2,f16c,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define LEVEL cshim_level_avx2

enum { STEP = 16, NARROWEST_BLOCK = 32 };

/* A vector of constants: one for each lane of 32 bits. */
#define LANES(function, bits)                                                                      \
    _mm256_setr_epi32(function(bits, 0), function(bits, 1), function(bits, 2), function(bits, 3),  \
                      function(bits, 4), function(bits, 5), function(bits, 6), function(bits, 7))

INLINE void store(void *output, __m256i bytes, bool past_cache)
{
    if (past_cache) {
        _mm256_stream_si256(output, bytes);
    } else {
        _mm256_storeu_si256(output, bytes);
    }
}

/* The largest magnitude's bits among a multiple of 32 floats; NaN and Inf are largest. */
INLINE uint32_t largest_of(const float *input, size_t count)
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

/* Puts values, or the sum of them and what is there, with any NaN made canonical. */
INLINE void put(float *output, __m256 value, enum cshim_put_mode mode)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    bool is_sum = mode == CSHIM_PUT_SUM;
    __m256 result = is_sum ? _mm256_add_ps(_mm256_loadu_ps(output), value) : value;
    result = _mm256_blendv_ps(result, nan, _mm256_cmp_ps(result, result, _CMP_UNORD_Q));
    store(output, _mm256_castps_si256(result), mode == CSHIM_PUT_PAST_CACHE);
}

/* Codes of small floats, one in each 32-bit lane: cshim_minifloat_encode and the sign. The exponent
 * lies in a lane's upper 16 bits, so that the saturating subtraction of 16-bit numbers gives how
 * far it is above the smallest, or 0. */
INLINE __m256i float_codes(struct cshim_format format, __m256 scaled)
{
    const int dropped = 23 - format.mantissa_bits;
    const __m256i smallest = _mm256_set1_epi32((127 + format.min_exponent) << 23);
    const __m256i first_anchor = _mm256_set1_epi32((127 + format.min_exponent + dropped) << 23);
    const __m256i infinity = _mm256_set1_epi32((int)CSHIM_INFINITY_BITS);
    const __m256 sign_bit = _mm256_set1_ps(-0.0f);
    __m256 magnitude = _mm256_andnot_ps(sign_bit, scaled);
    __m256i exponent = _mm256_and_si256(_mm256_castps_si256(scaled), infinity);
    __m256i above = _mm256_subs_epu16(exponent, smallest);
    __m256i anchor = _mm256_add_epi32(above, first_anchor);
    __m256 rounded = _mm256_add_ps(magnitude, _mm256_castsi256_ps(anchor));
    __m256i steps = _mm256_sub_epi32(_mm256_castps_si256(rounded), anchor);
    __m256i base = _mm256_srli_epi32(above, dropped);
    __m256i sign = _mm256_castps_si256(_mm256_and_ps(scaled, sign_bit));
    return _mm256_or_si256(_mm256_add_epi32(steps, base), _mm256_srli_epi32(sign, 24));
}

INLINE __m256i codes_of(struct cshim_format format, const float *input, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(input), inverse);
    return format.family == CSHIM_FAMILY_INTEGER ? _mm256_cvtps_epi32(scaled)
                                                 : float_codes(format, scaled);
}

/* The codes of 32 elements, a byte each. */
INLINE __m256i byte_codes(struct cshim_format format, const float *input, __m256 inverse)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i low =
        _mm256_packs_epi32(codes_of(format, input, inverse), codes_of(format, input + 8, inverse));
    __m256i high = _mm256_packs_epi32(codes_of(format, input + 16, inverse),
                                      codes_of(format, input + 24, inverse));
    __m256i bytes = format.family == CSHIM_FAMILY_INTEGER ? _mm256_packs_epi16(low, high)
                                                          : _mm256_packus_epi16(low, high);
    return _mm256_permutevar8x32_epi32(bytes, in_order);
}

/* Stores the lower bits of 32 bytes without gaps. Codes are joined by twos, fours and eights; then
 * the halves of the vector overlap as they are stored, and the zeros behind the second are
 * overwritten by the next codes. Behind the last codes of an array nothing may be written. */
INLINE void store_packed(int bits, __m256i codes, uint8_t *payload, bool is_last)
{
    const int gap = 32 - 4 * bits;
    codes = _mm256_and_si256(codes, _mm256_set1_epi8((char)((1 << bits) - 1)));
    codes = _mm256_maddubs_epi16(_mm256_set1_epi16((short)(1 | 1 << (bits + 8))), codes);
    if (bits == 4) {
        _mm_storeu_si128((__m128i *)payload, _mm_packus_epi16(_mm256_castsi256_si128(codes),
                                                              _mm256_extracti128_si256(codes, 1)));
        return;
    }
    codes = _mm256_madd_epi16(codes, _mm256_set1_epi32(1 | 1 << (16 + 2 * bits)));
    codes = _mm256_sllv_epi32(codes, _mm256_set1_epi64x(gap));
    codes = _mm256_srli_epi64(codes, gap);
    codes = _mm256_shuffle_epi8(codes, _mm256_broadcastsi128_si256(_mm_setr_epi32(
                                           joined_bytes(bits, 0), joined_bytes(bits, 1),
                                           joined_bytes(bits, 2), joined_bytes(bits, 3))));
    uint8_t bytes[32];
    is_last = is_last || 6 * bits < 16; /* the zeros would reach beyond the next codes */
    uint8_t *to = is_last ? bytes : payload;
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(codes));
    _mm_storeu_si128((__m128i *)(to + 2 * bits), _mm256_extracti128_si256(codes, 1));
    if (is_last) {
        memcpy(payload, bytes, 4 * (size_t)bits);
    }
}

INLINE void encode_block(struct cshim_format format, const float *input, float factor,
                         uint8_t *payload, bool past_cache, bool is_last)
{
    const __m256 inverse = _mm256_set1_ps(factor);
    for (int i = 0; i < format.block && format.bits == 16; i += 16) {
        __m256 low = _mm256_mul_ps(_mm256_loadu_ps(input + i), inverse);
        __m256 high = _mm256_mul_ps(_mm256_loadu_ps(input + i + 8), inverse);
        __m256i halves = _mm256_setr_m128i(_mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT),
                                           _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
        store(payload + 2 * i, halves, past_cache);
    }
    for (int i = 0; i < format.block && format.bits <= 8; i += 32) {
        __m256i codes = byte_codes(format, input + i, inverse);
        if (format.bits == 8) {
            store(payload + i, codes, past_cache);
        } else {
            store_packed(format.bits, codes, payload + i / 8 * format.bits,
                         is_last && i + 32 == format.block);
        }
    }
}

/* The values of 8 codes of 4 bits, looked up by the lower bits of each lane. */
INLINE __m256 nibble_values(const uint8_t *payload, __m256 scale)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    const __m256 positive = _mm256_mul_ps(_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), scale);
    const __m256 negative =
        _mm256_blend_ps(_mm256_sub_ps(positive, _mm256_mul_ps(_mm256_set1_ps(8), scale)), nan, 1);
    int bytes;
    memcpy(&bytes, payload, sizeof bytes);
    __m256i pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    __m256i codes = _mm256_or_si256(pairs, _mm256_slli_epi64(pairs, 28));
    __m256i sign = _mm256_slli_epi32(codes, 28);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(positive, codes),
                            _mm256_permutevar8x32_ps(negative, codes), _mm256_castsi256_ps(sign));
}

/* The values of 8 integers. The 8 bytes that are read may go beyond the codes. */
INLINE __m256 integer_values(struct cshim_format format, const uint8_t *payload, __m256 scale)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    const int bits = format.bits;
    __m128i bytes = _mm_loadl_epi64((const __m128i *)payload);
    __m256i codes;
    if (bits == 4) {
        return nibble_values(payload, scale);
    }
    if (bits == 8) {
        codes = _mm256_cvtepi8_epi32(bytes);
    } else {
        codes = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(bytes), LANES(window, bits));
        codes = _mm256_sllv_epi32(codes, LANES(lift, bits));
        codes = _mm256_srai_epi32(codes, 32 - bits);
    }
    __m256i is_nan = _mm256_cmpeq_epi32(codes, _mm256_set1_epi32(-format.top - 1));
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(codes), scale);
    return _mm256_blendv_ps(value, nan, _mm256_castsi256_ps(is_nan));
}

/* 16 codes of small floats as binary16: the sign stays, the magnitude moves to where a binary16 has
 * its own. A NaN whose exponent is an
 * ordinary one there is made a NaN of binary16. */
INLINE __m256i halves_of(struct cshim_format format, const uint8_t *payload)
{
    const int shift = 10 - format.mantissa_bits;
    const __m256i top = _mm256_set1_epi16((short)(0x7f << shift));
    __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)payload));
    __m256i halves = _mm256_slli_epi16(codes, shift);
    if (format.has_infinity) { /* and as many exponent bits */
        return halves;
    }
    halves = _mm256_and_si256(halves, _mm256_set1_epi16((short)(0x8000 | 0x7f << shift)));
    __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(halves, top), top);
    return _mm256_or_si256(halves, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
}

INLINE void expand_block(struct cshim_format format, const uint8_t *payload, float factor,
                         float *output, enum cshim_put_mode mode)
{
    if (format.family == CSHIM_FAMILY_INTEGER) {
        for (int i = 0; i < format.block; i += 8) {
            put(output + i,
                integer_values(format, payload + i / 8 * format.bits, _mm256_set1_ps(factor)),
                mode);
        }
        return;
    }
    const __m256 scale = _mm256_set1_ps(factor);
    for (int i = 0; i < format.block; i += 16) {
        __m128i low, high;
        if (format.bits == 16) {
            low = _mm_loadu_si128((const __m128i *)(payload + 2 * i));
            high = _mm_loadu_si128((const __m128i *)(payload + 2 * i + 16));
        } else {
            __m256i halves = halves_of(format, payload + i);
            low = _mm256_castsi256_si128(halves);
            high = _mm256_extracti128_si256(halves, 1);
        }
        put(output + i, _mm256_mul_ps(_mm256_cvtph_ps(low), scale), mode);
        put(output + i + 8, _mm256_mul_ps(_mm256_cvtph_ps(high), scale), mode);
    }
}

/* The code of each lane, in its lower half. */
INLINE __m256i upper_halves(__m256i bits)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounding = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, rounding), 16);
}

INLINE bool encode_upper(const float *input, uint8_t *payload, bool past_cache)
{
    const __m256i magnitude = _mm256_set1_epi32((int)~CSHIM_SIGN_BIT);
    const __m256i ordinary = _mm256_set1_epi32((int)CSHIM_BF16_EXCEPTIONAL - 1);
    _mm_prefetch((const char *)(input + CSHIM_PREFETCH_FLOATS), _MM_HINT_T1);
    __m256i low = _mm256_loadu_si256((const __m256i *)input);
    __m256i high = _mm256_loadu_si256((const __m256i *)(input + 8));
    __m256i largest =
        _mm256_max_epi32(_mm256_and_si256(low, magnitude), _mm256_and_si256(high, magnitude));
    if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, ordinary)) != 0) {
        return false;
    }
    __m256i codes = _mm256_packus_epi32(upper_halves(low), upper_halves(high));
    store(payload, _mm256_permute4x64_epi64(codes, 0xd8), past_cache);
    return true;
}

INLINE void expand_upper(struct cshim_format format, const uint8_t *payload, float *output,
                         enum cshim_put_mode mode)
{
    for (int i = 0; i < STEP; i += 8) {
        __m256i bits;
        if (format.bits == 16) {
            __m128i codes = _mm_loadu_si128((const __m128i *)(payload + 2 * i));
            bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16);
        } else {
            bits = _mm256_loadu_si256((const __m256i *)(payload + 4 * i));
        }
        put(output + i, _mm256_castsi256_ps(bits), mode);
    }
}

TARGET static void narrow_half(const float *input, size_t count, uint8_t *output)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)CSHIM_NAN_BITS));
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 value = _mm256_loadu_ps(input + i);
        value = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(output + 2 * i),
                         _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }
    cshim_level_scalar.narrow_half(input + i, count - i, output + 2 * i);
}

#include "codecs/arrays.h"
#endif
