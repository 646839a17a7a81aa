/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks arrays of the packed codecs: a table of lengths, followed by the grains, each
 * packed separately (lossless.h, bounded.h, topk.c). docs/wire-format.md gives every byte. */
#include <string.h>

#include "codecs/loops.h"

/* Reads the packed length of the whole array. */
static uint32_t load_length(const uint8_t *packed)
{
    uint32_t length;
    memcpy(&length, packed, sizeof length);
    return length;
}

/* Reads the packed length of a grain. */
static uint32_t load_grain_length(const uint8_t *packed, size_t grain)
{
    uint16_t length;
    memcpy(&length, packed + sizeof(uint32_t) + grain * sizeof length, sizeof length);
    return length;
}

double cshim_codec_typical_share(enum cshim_codec_id id, enum cshim_dtype dtype)
{
    static const double shares[CSHIM_DTYPE_COUNT] = {0.86, 0.88, 0.90, 0.71}; /* by element type */
    return id == CSHIM_CODEC_LOSSLESS  ? shares[dtype]
           : id == CSHIM_CODEC_BOUNDED ? 0.3
           : id == CSHIM_CODEC_TOPK    ? 0.03
                                       : 1;
}

size_t cshim_encoded_length(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count,
                            const void *encoded)
{
    const size_t most = cshim_encoded_bytes(id, dtype, count);
    if (!cshim_codec_is_packed(id) || count == 0)
        return most;
    const size_t length = cshim_align(load_length(encoded));
    return length < most ? length : most;
}

/* Packs a grain, whose first element has index `begin` in the array. */
static size_t pack_grain(enum cshim_codec_id id, enum cshim_dtype dtype,
                         const struct cshim_encoding *encoding, size_t begin, const uint8_t *input,
                         size_t elements, uint8_t *packed)
{
    const bool is_bounded = id == CSHIM_CODEC_BOUNDED && encoding != NULL;
    float *const residual =
        encoding != NULL && encoding->residual != NULL ? encoding->residual + begin : NULL;
    if (id == CSHIM_CODEC_TOPK)
        return cshim_topk_pack((const float *)(const void *)input, elements,
                               residual != NULL ? encoding->keep : 0, residual, packed);
    return cshim_level()->pack_grain(dtype, is_bounded ? encoding->step : 0, input, elements,
                                     packed);
}

void cshim_pack_tile(enum cshim_codec_id id, enum cshim_dtype dtype,
                     const struct cshim_encoding *encoding, const uint8_t *input, size_t begin,
                     size_t length, size_t count, uint8_t *packed)
{
    const size_t element = cshim_dtype_bytes(dtype);
    uint32_t end = begin == 0 ? (uint32_t)cshim_packed_table(count) : load_length(packed);
    for (size_t done = 0; done < length; done += CSHIM_GRAIN) {
        const size_t elements = length - done < CSHIM_GRAIN ? length - done : CSHIM_GRAIN;
        const uint16_t bytes = (uint16_t)pack_grain(id, dtype, encoding, begin + done,
                                                    input + done * element, elements, packed + end);
        memcpy(packed + sizeof end + (begin + done) / CSHIM_GRAIN * sizeof bytes, &bytes,
               sizeof bytes);
        end += bytes;
    }
    memcpy(packed, &end, sizeof end);
    if (begin + length == count)
        memset(packed + end, 0, cshim_encoded_bytes(id, dtype, count) - end);
}

size_t cshim_packed_offset(const uint8_t *packed, size_t begin, size_t count)
{
    uint32_t before = 0; /* 32 bits wide, because vectors have more such lanes than of size_t */
    for (size_t grain = 0; grain < begin / CSHIM_GRAIN; grain++)
        before += load_grain_length(packed, grain);
    return cshim_packed_table(count) + before;
}

/* Reads no more than cshim_encoded_bytes(), even if the lengths in the table are invalid. */
size_t cshim_unpack_tile(enum cshim_codec_id id, enum cshim_dtype dtype, const uint8_t *packed,
                         size_t offset, size_t begin, size_t length, size_t count, uint8_t *output)
{
    const size_t element = cshim_dtype_bytes(dtype);
    const size_t most = cshim_encoded_bytes(id, dtype, count);
    for (size_t done = 0; done < length; done += CSHIM_GRAIN) {
        const size_t elements = length - done < CSHIM_GRAIN ? length - done : CSHIM_GRAIN;
        const size_t bytes = load_grain_length(packed, (begin + done) / CSHIM_GRAIN);
        const bool is_inside = offset + bytes <= most;
        if (id == CSHIM_CODEC_TOPK) /* SIZE_MAX: an invalid length */
            cshim_topk_unpack(packed + (is_inside ? offset : 0), is_inside ? bytes : SIZE_MAX,
                              elements, (float *)(void *)(output + done * element));
        else if (is_inside)
            cshim_level()->unpack_grain(dtype, packed + offset, bytes, elements,
                                        output + done * element);
        else
            memset(output + done * element, UINT8_MAX, elements * element);
        offset += bytes;
    }
    return offset;
}
