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

#define TARGET
#define LEVEL cshim_level_scalar
#define PASSES_CACHE(output, count) false
#define ENCODE(format, id, input, count, payload, scales)                                          \
    cshim_encode_portably(format, input, NULL, count, payload, scales)
#define EXPAND(format, id, payload, scales, count, output, mode)                                   \
    cshim_expand_portably(format, payload, scales, count, output, mode)
#include "codecs/level.h"
