/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks grains of the codec topk. With a residual, only the few elements of largest
 * magnitude and all that are not finite are sent, each as an index and an int4 code; the others are
 * decoded as zeros. docs/wire-format.md gives every byte.
 *
 * Elements that are not sent stay in the residual completely, and are added in the next call.
 * Residuals have no limit, because an element may wait for many calls. Without a residual all
 * elements except zeros are sent. */
#include <string.h>

#include "codecs/floats.h"
#include "codecs/loops.h"

/* Codec of the sent elements' values. */
#define VALUES CSHIM_CODEC_INT4

/* Returns the bytes of `kept` codes. */
static size_t codes_bytes(size_t kept)
{
    const struct cshim_codec_info *info = cshim_codec_info(VALUES);
    return (kept * info->element_bits + 7) / 8;
}

/* Selects the elements to send: all non-finite ones, and up to `most` nonzero finite ones with the
 * largest magnitudes. Prefers the lower index among equal magnitudes. Writes the indices in
 * ascending order, and returns their number. */
static size_t choose(const float *elements, size_t count, size_t most, uint8_t *places)
{
    uint32_t left[CSHIM_GRAIN]; /* magnitudes; 0 for chosen elements */
    bool chosen[CSHIM_GRAIN];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = cshim_float_bits(elements[i]) & ~CSHIM_SIGN_BIT;
        chosen[i] = magnitude >= CSHIM_INFINITY_BITS || (most >= count && magnitude != 0);
        left[i] = chosen[i] ? 0 : magnitude;
    }
    for (size_t taken = 0; taken < most && most < count; taken++) {
        uint32_t largest = 0;
        size_t place = 0;
        for (size_t i = 0; i < count; i++)
            largest = left[i] > largest ? left[i] : largest;
        if (largest == 0)
            break;
        while (left[place] != largest)
            place++;
        chosen[place] = true;
        left[place] = 0;
    }
    for (size_t i = 0; i < count; i++)
        if (chosen[i])
            places[kept++] = (uint8_t)i;
    return kept;
}

size_t cshim_topk_pack(const float *input, size_t count, unsigned keep, float *residual,
                       uint8_t *output)
{
    float elements[CSHIM_GRAIN], values[CSHIM_GRAIN];
    uint8_t codes[2 * CSHIM_GRAIN] = {0}; /* padding: decoders read past the end */
    for (size_t i = 0; i < count; i++) {
        const bool is_finite = (cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT) < CSHIM_INFINITY_BITS;
        elements[i] =
            residual != NULL && is_finite ? cshim_saturate(input[i] + residual[i]) : input[i];
    }
    const size_t kept = choose(elements, count, residual != NULL ? keep : count, output);
    uint8_t *const scales = codes + codes_bytes(kept);
    for (size_t i = 0; i < kept; i++)
        values[i] = elements[output[i]];
    if (kept > 0)
        cshim_level()->codecs[VALUES].encode(values, kept, codes, scales);
    memcpy(output + kept, codes, cshim_topk_bytes(kept) - kept);
    if (residual == NULL)
        return cshim_topk_bytes(kept);
    if (kept > 0)
        cshim_level()->codecs[VALUES].rest(codes, scales, kept, values);
    memcpy(residual, elements, count * sizeof *residual);
    for (size_t i = 0; i < kept; i++)
        residual[output[i]] = values[i];
    return cshim_topk_bytes(kept);
}

void cshim_topk_unpack(const uint8_t *input, size_t bytes, size_t count, float *output)
{
    float values[CSHIM_GRAIN];
    uint8_t codes[2 * CSHIM_GRAIN]; /* padding: decoders read past the end */
    size_t kept = 0;
    while (kept < count && cshim_topk_bytes(kept) < bytes)
        kept++;
    bool is_good = cshim_topk_bytes(kept) == bytes;
    for (size_t i = 0; i < kept && is_good; i++)
        is_good = input[i] < count && (i == 0 || input[i] > input[i - 1]);
    for (size_t i = 0; i < count; i++)
        output[i] = is_good ? 0 : cshim_bits_float(CSHIM_NAN_BITS);
    if (!is_good || kept == 0)
        return;
    memcpy(codes, input + kept, bytes - kept);
    cshim_level()->codecs[VALUES].decode(codes, codes + codes_bytes(kept), kept, values);
    for (size_t i = 0; i < kept; i++)
        output[input[i]] = values[i];
}
