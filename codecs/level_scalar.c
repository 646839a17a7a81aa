/* SPDX-License-Identifier: Apache-2.0 */
/* The loops without vector instructions: what the other levels leave to it, and what processors
 * without them use. */
#include "codecs/portable.h"

static void narrow_half(const float *input, size_t count, uint8_t *output)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = cshim_half_from_float(input[i]);
        memcpy(output + 2 * i, &half, 2);
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
