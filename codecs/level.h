/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: defines one SIMD level's table of loops. The including file defines, before:
 *   TARGET           the compiler's attribute for the level's instructions
 *   LEVEL            the name of the table
 *   ENCODE, EXPAND, ADD_TWO
 *                    functions or macros like cshim_encode_portably (without random numbers),
 *                    cshim_expand_portably and cshim_add_two_portably; their second argument is the
 *                    codec's id
 *   narrow_half, add_residual
 *                    as in struct cshim_level
 *   PASSES_CACHE(output, count)
 *                    true if decoding writes `count` floats at `output` past the caches */
#include "codecs/bounded.h"
#include "codecs/portable.h"

/* Defines a format's decoding loop for one mode. */
#define EXPANDING(ID, name, verb, MODE)                                                            \
    TARGET static void verb##_##name(const uint8_t *payload, const uint8_t *scales, size_t count,  \
                                     float *output)                                                \
    {                                                                                              \
        EXPAND(cshim_format(ID), (enum cshim_codec_id)ID, payload, scales, count, output, MODE);   \
    }
#define RAW(...)
#define FORMAT(ID, NAME, name)                                                                     \
    TARGET static void encode_##name(const float *input, size_t count, uint8_t *payload,           \
                                     uint8_t *scales)                                              \
    {                                                                                              \
        ENCODE(cshim_format(ID), (enum cshim_codec_id)ID, input, count, payload, scales);          \
    }                                                                                              \
    EXPANDING(ID, name, put, CSHIM_PUT)                                                            \
    EXPANDING(ID, name, pass, CSHIM_PUT_PAST_CACHE)                                                \
    EXPANDING(ID, name, add, CSHIM_PUT_SUM)                                                        \
    EXPANDING(ID, name, rest, CSHIM_PUT_REST)                                                      \
    TARGET static void add_two_##name(const uint8_t *first, const uint8_t *first_scales,           \
                                      const uint8_t *second, const uint8_t *second_scales,         \
                                      size_t count, float *sum)                                    \
    {                                                                                              \
        ADD_TWO(cshim_format(ID), (enum cshim_codec_id)ID, first, first_scales, second,            \
                second_scales, count, sum);                                                        \
    }                                                                                              \
    TARGET static void decode_##name(const uint8_t *payload, const uint8_t *scales, size_t count,  \
                                     float *output)                                                \
    {                                                                                              \
        (PASSES_CACHE(output, count) ? pass_##name : put_##name)(payload, scales, count, output);  \
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

/* Packers and unpackers of an element type. They are not inlined, because compilers make slower
 * loops in one function for all types. */
#define PACKERS(type, DTYPE)                                                                       \
    TARGET __attribute__((noinline)) static size_t pack_##type(const uint8_t *input, size_t count, \
                                                               uint8_t *output)                    \
    {                                                                                              \
        return pack_grain_of(packing_of(DTYPE), input, count, output);                             \
    }                                                                                              \
    TARGET __attribute__((noinline)) static void unpack_##type(const uint8_t *input, size_t bytes, \
                                                               size_t count, uint8_t *output)      \
    {                                                                                              \
        unpack_grain_of(packing_of(DTYPE), input, bytes, count, output);                           \
    }
PACKERS(float32, CSHIM_FLOAT32)
PACKERS(float64, CSHIM_FLOAT64)
PACKERS(float16, CSHIM_FLOAT16)
PACKERS(bfloat16, CSHIM_BFLOAT16)

TARGET static size_t pack_grain(enum cshim_dtype dtype, float step, const uint8_t *input,
                                size_t count, uint8_t *output)
{
    if (step > 0) {
        const size_t bytes = dtype == CSHIM_FLOAT64 ? pack_bounded(true, input, count, step, output)
                             : count == CSHIM_GRAIN /* known counts make better code */
                                 ? pack_bounded(false, input, CSHIM_GRAIN, step, output)
                                 : pack_bounded(false, input, count, step, output);
        if (bytes < count * cshim_dtype_bytes(dtype))
            return bytes;
    }
    return dtype == CSHIM_FLOAT32   ? pack_float32(input, count, output)
           : dtype == CSHIM_FLOAT64 ? pack_float64(input, count, output)
           : dtype == CSHIM_FLOAT16 ? pack_float16(input, count, output)
                                    : pack_bfloat16(input, count, output);
}

TARGET static void unpack_grain(enum cshim_dtype dtype, const uint8_t *input, size_t bytes,
                                size_t count, uint8_t *output)
{
    const bool is_bounded = bytes > 0 && bytes < count * cshim_dtype_bytes(dtype) &&
                            (input[0] & PACKED_MASKED) == 0 && (input[0] & PACKED_BOUNDED) != 0;
    if (is_bounded && dtype == CSHIM_FLOAT32 &&
        (count == CSHIM_GRAIN ? unpack_bounded(false, input, bytes, CSHIM_GRAIN, output)
                              : unpack_bounded(false, input, bytes, count, output)))
        return;
    if (is_bounded && dtype == CSHIM_FLOAT64 && unpack_bounded(true, input, bytes, count, output))
        return;
    if (dtype == CSHIM_FLOAT32)
        unpack_float32(input, bytes, count, output);
    else if (dtype == CSHIM_FLOAT64)
        unpack_float64(input, bytes, count, output);
    else if (dtype == CSHIM_FLOAT16)
        unpack_float16(input, bytes, count, output);
    else
        unpack_bfloat16(input, bytes, count, output);
}

const struct cshim_level LEVEL = {
    .codecs =
        {
#define RAW(...)
#define FORMAT(ID, NAME, name)                                                                     \
    [ID] = {encode_##name,  decode_##name, add_##name,                                             \
            add_two_##name, rest_##name,   encode_random_##name},
#include "codecs/formats.def"
        },
    .narrow_half = narrow_half,
    .fill_random = fill_random,
    .add_residual = add_residual,
    .pack_grain = pack_grain,
    .unpack_grain = unpack_grain,
};
