/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: loops over any format, in portable C over the conversions of scalar.h.
 *
 * They are compiled for each format and SIMD level: `format` is a constant wherever they are
 * inlined, and the compiler makes vector code of the inner loops, which have no branches.
 */
#ifndef CSHIM_PORTABLE_H
#define CSHIM_PORTABLE_H

#include <stdbool.h>

#include "codecs/loops.h"
#include "codecs/scalar.h"

#define CSHIM_INLINE static inline __attribute__((always_inline))

/* What becomes of decoded values: they replace what is there, or do so past the caches, or are
 * added to it, or subtracted from it for error feedback. */
enum cshim_put_mode { CSHIM_PUT, CSHIM_PUT_PAST_CACHE, CSHIM_PUT_SUM, CSHIM_PUT_REST };

/* Reads a block's scale as messages have it; 0 where there is none. */
CSHIM_INLINE uint32_t cshim_load_scale(struct cshim_format format, const uint8_t *scales,
                                       size_t block)
{
    if (format.scale_bytes == 2)
        return scales[2 * block] | (uint32_t)scales[2 * block + 1] << 8;
    return format.scale_bytes == 1 ? scales[block] : 0;
}

CSHIM_INLINE void cshim_store_scale(struct cshim_format format, uint8_t *scales, size_t block,
                                    uint32_t stored)
{
    for (int byte = 0; byte < format.scale_bytes; byte++)
        scales[(size_t)format.scale_bytes * block + (size_t)byte] = (uint8_t)(stored >> 8 * byte);
}

/* Reads code number i of a payload. */
CSHIM_INLINE uint32_t cshim_load_code(struct cshim_format format, const uint8_t *payload, size_t i)
{
    if (format.bits == 16) {
        uint16_t code;
        memcpy(&code, payload + 2 * i, sizeof code);
        return code;
    }
    if (format.bits == 32) {
        uint32_t code;
        memcpy(&code, payload + 4 * i, sizeof code);
        return code;
    }
    return cshim_narrow_code(payload, (unsigned)format.bits, i);
}

/* Writes count codes of up to 16 bits from the first bit of a byte on. What is left of the last
 * byte becomes 0. Two codes at a time are joined, then four pairs make whole bytes. */
CSHIM_INLINE void cshim_store_codes(struct cshim_format format, const uint16_t *codes, size_t count,
                                    uint8_t *payload)
{
    const unsigned bits = (unsigned)format.bits;
    if (bits == 16) {
        memcpy(payload, codes, count * sizeof *codes);
    } else if (bits == 8) {
        for (size_t i = 0; i < count; i++)
            payload[i] = (uint8_t)codes[i];
    } else {
        uint16_t pairs[CSHIM_GRAIN / 2 + 4];
        const size_t whole = count / 2, bytes = cshim_payload_bytes(bits, count);
        for (size_t i = 0; i < whole; i++) {
            uint32_t pair;
            memcpy(&pair, codes + 2 * i, sizeof pair);
            pairs[i] = (uint16_t)(pair | pair >> (16 - bits));
        }
        pairs[whole] = count % 2 != 0 ? codes[count - 1] : 0;
        pairs[whole + 1] = pairs[whole + 2] = pairs[whole + 3] = 0;
        for (size_t i = 0; bits == 4 && i < bytes; i++)
            payload[i] = (uint8_t)pairs[i];
        for (size_t i = 0; bits != 4 && bits * i < bytes; i++) {
            const uint64_t word = pairs[4 * i] | (uint64_t)pairs[4 * i + 1] << 2 * bits |
                                  (uint64_t)pairs[4 * i + 2] << 4 * bits |
                                  (uint64_t)pairs[4 * i + 3] << 6 * bits;
            if (bits * (i + 1) <= bytes)
                memcpy(payload + bits * i, &word, bits);
            else
                memcpy(payload + bits * i, &word, bytes - bits * i);
        }
    }
}

/* The codes of a block, or of part of one, and its scale. random is NULL for rounding to nearest.
 */
CSHIM_INLINE void cshim_block_codes(struct cshim_format format, const float *input,
                                    const uint32_t *random, size_t count, uint16_t *codes,
                                    uint8_t *scales)
{
    uint32_t largest = 0, largest_finite = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT;
        largest = magnitude > largest ? magnitude : largest;
    }
    const bool is_finite = largest < CSHIM_INFINITY_BITS;
    for (size_t i = 0; i < count && !is_finite; i++) {
        uint32_t magnitude = cshim_finite_magnitude(input[i]);
        largest_finite = magnitude > largest_finite ? magnitude : largest_finite;
    }
    const uint32_t stored =
        cshim_choose_scale(format, is_finite ? largest : largest_finite, random != NULL);
    const struct cshim_scaling scaling = cshim_scaling(format, stored);
    cshim_store_scale(format, scales, 0, stored);
    if (random != NULL && is_finite) {
        for (size_t i = 0; i < count; i++)
            codes[i] = (uint16_t)cshim_encode_random(format, input[i], scaling, random[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT;
        bool at_random = random != NULL && magnitude < CSHIM_INFINITY_BITS;
        codes[i] = (uint16_t)(at_random ? cshim_encode_random(format, input[i], scaling, random[i])
                                        : cshim_encode_nearest(format, input[i], scaling));
    }
}

CSHIM_INLINE void cshim_encode_portably(struct cshim_format format, const float *input,
                                        const uint32_t *random, size_t count, uint8_t *payload,
                                        uint8_t *scales)
{
    const size_t block = (size_t)format.block;
    if (format.bits == 32) {
        memcpy(payload, input, count * sizeof *input);
        return;
    }
    uint16_t codes[CSHIM_GRAIN];
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        for (size_t i = 0; i < length; i += block) {
            const size_t at = begin + i;
            const uint32_t *numbers = random != NULL ? random + at : NULL;
            uint8_t *scale = scales + at / block * (size_t)format.scale_bytes;
            if (length - i >= block)
                cshim_block_codes(format, input + at, numbers, block, codes + i, scale);
            else
                cshim_block_codes(format, input + at, numbers, length - i, codes + i, scale);
        }
        cshim_store_codes(format, codes, length,
                          payload + cshim_payload_bytes((unsigned)format.bits, begin));
    }
}

/* Decodes count elements from the first of a block on. */
CSHIM_INLINE void cshim_expand_portably(struct cshim_format format, const uint8_t *payload,
                                        const uint8_t *scales, size_t count, float *output,
                                        enum cshim_put_mode mode)
{
    if (format.bits == 32 && mode < CSHIM_PUT_SUM) {
        memcpy(output, payload, count * sizeof *output);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t stored = cshim_load_scale(format, scales, i / (size_t)format.block);
        float value = cshim_decode_code(format, cshim_load_code(format, payload, i), stored);
        output[i] = mode == CSHIM_PUT_SUM    ? cshim_sum(output[i], value)
                    : mode == CSHIM_PUT_REST ? cshim_feedback_rest(output[i], value)
                                             : value;
    }
}

/* Decodes the first and adds the second. */
CSHIM_INLINE void cshim_add_two_portably(struct cshim_format format, const uint8_t *first,
                                         const uint8_t *first_scales, const uint8_t *second,
                                         const uint8_t *second_scales, size_t count, float *sum)
{
    for (size_t i = 0; i < count; i++) {
        const size_t block = i / (size_t)format.block;
        const float a = cshim_decode_code(format, cshim_load_code(format, first, i),
                                          cshim_load_scale(format, first_scales, block));
        const float b = cshim_decode_code(format, cshim_load_code(format, second, i),
                                          cshim_load_scale(format, second_scales, block));
        sum[i] = cshim_sum(a, b);
    }
}

#endif
