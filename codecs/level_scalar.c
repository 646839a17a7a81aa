/* SPDX-License-Identifier: Apache-2.0 */
/* The loops in portable C, compiled for the instructions that every processor of the architecture
 * has: for processors without AVX2, and for blocks that the other levels do not handle. */
#include "codecs/portable.h"

/* Bits of 65520, the smallest float32 that rounds to infinity in IEEE binary16. Larger bits are
 * larger magnitudes, infinity or NaN. */
#define HALF_EXCEPTIONAL 0x477ff000u

static void narrow_half(const float *input, size_t count, uint8_t *output)
{
    const struct cshim_format half = cshim_format(CSHIM_CODEC_FP16);
    for (size_t begin = 0; begin < count; begin += CSHIM_GRAIN) {
        const size_t length = count - begin < CSHIM_GRAIN ? count - begin : CSHIM_GRAIN;
        const float *const from = input + begin;
        uint8_t *const to = output + 2 * begin;
        if (cshim_largest_of_block(from, length) < HALF_EXCEPTIONAL)
            cshim_plain_codes(half, from, 1, length, to);
        else
            for (size_t i = 0; i < length; i++)
                cshim_put_code(half, to, i, cshim_half_from_float(from[i]));
    }
}

static void add_residual(const float *input, size_t count, size_t block, float share,
                         float *residual)
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
            residual[i] = cshim_feedback_add(input[i], residual[i], limit);
    }
}

#define TARGET
#define LEVEL cshim_level_scalar
#define PASSES_CACHE(output, count) false
#define ENCODE(format, id, input, count, payload, scales)                                          \
    cshim_encode_portably(format, input, NULL, count, payload, scales)
#define EXPAND(format, id, payload, scales, count, output, mode)                                   \
    cshim_expand_portably(format, payload, scales, count, output, mode)
#define ADD_TWO(format, id, first, first_scales, second, second_scales, count, sum)                \
    cshim_add_two_portably(format, first, first_scales, second, second_scales, count, sum)
#include "codecs/level.h"
