/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: defines one SIMD level's table of loops. The including file defines, before:
 *   TARGET           the compiler's attribute for the level's instructions
 *   LEVEL            the name of the table
 *   ENCODE, EXPAND   inline functions as cshim_encode_portably, without its random numbers, and as
 *                    cshim_expand_portably; their second argument is the codec's id
 *   narrow_half      as in struct cshim_level
 *   PASSES_CACHE     whether arrays beyond a size are written past the caches
 */
#include "codecs/portable.h"

#define RAW(...)
#define FORMAT(ID, NAME, name)                                                                     \
    TARGET static void encode_##name(const float *input, size_t count, uint8_t *payload,           \
                                     uint8_t *scales)                                              \
    {                                                                                              \
        ENCODE(cshim_format(ID), (enum cshim_codec_id)ID, input, count, payload, scales);          \
    }                                                                                              \
    TARGET static void decode_##name(const uint8_t *payload, const uint8_t *scales, size_t count,  \
                                     float *output)                                                \
    {                                                                                              \
        if (PASSES_CACHE(output, count)) {                                                         \
            EXPAND(cshim_format(ID), (enum cshim_codec_id)ID, payload, scales, count, output,      \
                   CSHIM_PUT_PAST_CACHE);                                                          \
        } else {                                                                                   \
            EXPAND(cshim_format(ID), (enum cshim_codec_id)ID, payload, scales, count, output,      \
                   CSHIM_PUT);                                                                     \
        }                                                                                          \
    }                                                                                              \
    TARGET static void add_##name(const uint8_t *payload, const uint8_t *scales, size_t count,     \
                                  float *sum)                                                      \
    {                                                                                              \
        EXPAND(cshim_format(ID), (enum cshim_codec_id)ID, payload, scales, count, sum,             \
               CSHIM_PUT_SUM);                                                                     \
    }                                                                                              \
    TARGET static void encode_random_##name(const float *input, const uint32_t *random,            \
                                            size_t count, uint8_t *payload, uint8_t *scales)       \
    {                                                                                              \
        cshim_encode_portably(cshim_format(ID), input, random, count, payload, scales);            \
    }
#include "codecs/formats.def"

TARGET static const uint32_t *fill_random(uint64_t key, uint64_t first, size_t count,
                                          uint32_t *random)
{
    const uint64_t stream = cshim_random_stream(key);
    const size_t skipped = first % 2;
    for (size_t i = 0; i < (count + skipped + 1) / 2; i++) {
        uint64_t pair = cshim_random_pair(stream, first / 2 + i);
        random[2 * i] = (uint32_t)pair;
        random[2 * i + 1] = (uint32_t)(pair >> 32);
    }
    return random + skipped;
}

TARGET static void add_residual(const float *input, const float *residual, size_t count,
                                size_t block, float share, float *sum)
{
    for (size_t begin = 0; begin < count; begin += block) {
        const size_t end = count - begin < block ? count : begin + block;
        uint32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            const uint32_t magnitude = cshim_finite_magnitude(input[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
        const float limit = cshim_bits_float(largest) * share;
        for (size_t i = begin; i < end; i++)
            sum[i] = cshim_feedback_add(input[i], residual[i], limit);
    }
}

TARGET static void keep_residual(const float *sum, const float *decoded, size_t count,
                                 float *residual)
{
    for (size_t i = 0; i < count; i++)
        residual[i] = cshim_feedback_rest(sum[i], decoded[i]);
}

const struct cshim_level LEVEL = {
    .codecs =
        {
#define RAW(...)
#define FORMAT(ID, NAME, name)                                                                     \
    [ID] = {encode_##name, decode_##name, add_##name, encode_random_##name},
#include "codecs/formats.def"
        },
    .narrow_half = narrow_half,
    .fill_random = fill_random,
    .add_residual = add_residual,
    .keep_residual = keep_residual,
};
