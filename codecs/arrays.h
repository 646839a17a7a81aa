/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the way through an array that the loops with AVX2 and AVX-512 have in
 * common.
 *
 * The vector code treats whole blocks of ordinary numbers. Blocks with a non-finite element or a
 * scale at the ends of the float32 range, and the last, partial block, go to the scalar level's
 * loops, so that the exceptional cases exist once. The including file defines, before:
 *   TARGET, LEVEL    as for level.h
 *   INLINE           an inline function with the level's instructions
 *   STEP             elements that encode_upper and expand_upper take
 *   NARROWEST_BLOCK  elements that share a scale, for encode_block; blocks of less are encoded with
 *                    AVX2, because wider vectors do not shorten the way to the scale
 *   largest_of       the largest magnitude's bits among the floats of a block
 *   encode_block     encodes a block of finite floats, given what elements are multiplied by
 *   expand_block     decodes a block, given what codes are multiplied by
 *   encode_upper     encodes floats as bf16; returns false if one of them is exceptional
 *   expand_upper     decodes bf16 or whole floats
 *   narrow_half      as in struct cshim_level
 */
#include "codecs/vector.h"

/* Where a block's codes and scale lie. */
CSHIM_INLINE size_t codes_at(struct cshim_format format, size_t element)
{
    return cshim_payload_bytes((unsigned)format.bits, element);
}

CSHIM_INLINE size_t scale_at(struct cshim_format format, size_t element)
{
    return element / (size_t)format.block * (size_t)format.scale_bytes;
}

/* Encodes blocks from element `begin` on up to the first that is left to the scalar loops, and
 * returns where that begins, or count. The largest magnitude of the next block is looked for before
 * a block is encoded, so that the loads from memory and the arithmetic overlap. */
INLINE size_t encode_run(struct cshim_format format, const float *input, size_t begin, size_t count,
                         uint8_t *payload, uint8_t *scales, bool past_cache)
{
    const size_t block = (size_t)format.block;
    uint32_t largest = largest_of(input + begin, block);
    for (; begin < count; begin += block) {
        const bool is_last = begin + block == count;
        const uint32_t stored = cshim_choose_scale(format, largest, false);
        if (largest >= CSHIM_INFINITY_BITS || !is_plain(format, stored)) {
            return begin;
        }
        largest = is_last ? 0 : largest_of(input + begin + block, block);
        cshim_store_scale(format, scales, begin / block, stored);
        encode_block(format, input + begin, encoding_factor(format, stored),
                     payload + codes_at(format, begin), past_cache, is_last);
    }
    return count;
}

INLINE void encode_blocks(struct cshim_format format, enum cshim_codec_id id, const float *input,
                          size_t count, uint8_t *payload, uint8_t *scales)
{
    const bool past_cache = goes_past_cache(payload, count);
    for (size_t i = 0; i < count; i += (size_t)format.block) {
        i = encode_run(format, input, i, count, payload, scales, past_cache);
        if (i < count) {
            cshim_level_scalar.codecs[id].encode(input + i, (size_t)format.block,
                                                 payload + codes_at(format, i),
                                                 scales + scale_at(format, i));
        }
    }
    end_past_cache(past_cache);
}

/* Encodes a multiple of STEP floats as bf16, which has no scales: nothing is written there. */
INLINE void encode_uppers(enum cshim_codec_id id, const float *input, size_t count,
                          uint8_t *payload, uint8_t *scales)
{
    const bool past_cache = goes_past_cache(payload, count);
    for (size_t i = 0; i < count; i += STEP) {
        while (i < count && encode_upper(input + i, payload + 2 * i, past_cache)) {
            i += STEP;
        }
        if (i < count) {
            cshim_level_scalar.codecs[id].encode(input + i, STEP, payload + 2 * i, scales);
        }
    }
    end_past_cache(past_cache);
}

/* As cshim_encode_portably, which rounds to nearest where there are no random numbers. */
INLINE void encode_array(struct cshim_format format, enum cshim_codec_id id, const float *input,
                         size_t count, uint8_t *payload, uint8_t *scales)
{
    const bool is_scaled = format.family != CSHIM_FAMILY_UPPER;
    const size_t unit = is_scaled ? (size_t)format.block : STEP, whole = count / unit * unit;
    if (format.bits == 32 || (is_scaled && !has_blocks(format))) {
        cshim_encode_portably(format, input, NULL, count, payload, scales);
        return;
    }
    if (format.block < NARROWEST_BLOCK) {
        cshim_level_avx2.codecs[id].encode(input, count, payload, scales);
        return;
    }
    if (is_scaled) {
        encode_blocks(format, id, input, whole, payload, scales);
    } else {
        encode_uppers(id, input, whole, payload, scales);
    }
    cshim_level_scalar.codecs[id].encode(input + whole, count - whole,
                                         payload + codes_at(format, whole),
                                         scales + scale_at(format, whole));
}

/* Decodes blocks from element `begin` on up to the first that is left to the scalar loops, and
 * returns where that begins, or count. */
INLINE size_t expand_run(struct cshim_format format, const uint8_t *payload, const uint8_t *scales,
                         size_t begin, size_t count, float *output, enum cshim_put_mode mode)
{
    for (; begin < count; begin += (size_t)format.block) {
        const uint32_t stored = cshim_load_scale(format, scales + scale_at(format, begin), 0);
        if (!is_plain(format, stored)) {
            return begin;
        }
        expand_block(format, payload + codes_at(format, begin), decoding_factor(format, stored),
                     output + begin, mode);
    }
    return count;
}

/* As cshim_expand_portably. */
INLINE void expand_array(struct cshim_format format, enum cshim_codec_id id, const uint8_t *payload,
                         const uint8_t *scales, size_t count, float *output,
                         enum cshim_put_mode mode)
{
    const bool is_scaled = format.family != CSHIM_FAMILY_UPPER, is_sum = mode == CSHIM_PUT_SUM;
    const size_t unit = is_scaled ? (size_t)format.block : STEP, whole = count / unit * unit;
    if ((format.bits == 32 && !is_sum) || (is_scaled && !has_blocks(format))) {
        cshim_expand_portably(format, payload, scales, count, output, mode);
        return;
    }
    const struct cshim_loops *scalar = &cshim_level_scalar.codecs[id];
    for (size_t i = 0; i < whole && !is_scaled; i += STEP) {
        expand_upper(format, payload + codes_at(format, i), output + i, mode);
    }
    for (size_t i = 0; i < count; i += unit) {
        i = is_scaled ? expand_run(format, payload, scales, i, whole, output, mode) : whole;
        if (i < count) {
            const size_t length = i < whole ? unit : count - whole;
            (is_sum ? scalar->add : scalar->decode)(
                payload + codes_at(format, i), scales + scale_at(format, i), length, output + i);
        }
    }
    end_past_cache(mode == CSHIM_PUT_PAST_CACHE);
}

#define PASSES_CACHE goes_past_cache
#define ENCODE encode_array
#define EXPAND expand_array
#include "codecs/level.h"
