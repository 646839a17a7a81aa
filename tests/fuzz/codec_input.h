/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the codecs' fuzz targets: a random use of a codec, and the choice of the SIMD level. */
#ifndef FUZZ_CODEC_INPUT_H
#define FUZZ_CODEC_INPUT_H

#include <math.h>
#include <string.h>

#include "codecs/codec.h"
#include "tests/fuzz/fuzz.h"

/* Most inputs are short, to be fast. One in 32 exceeds the tile in which codecs work. */
#define FUZZ_COUNT_BITS 9
#define FUZZ_TILE 2048u

/* A use of a codec. */
struct codec_input {
    enum cshim_codec_id codec;
    enum cshim_dtype dtype; /* one that the codec supports */
    size_t count;           /* elements, at least 1 */
    size_t offset;          /* offset of the encoded bytes from 16-byte alignment */
    size_t element_bytes;
    size_t encoded_bytes;
};

static inline struct codec_input fuzz_take_codec(struct fuzz_input *input)
{
    struct codec_input taken = {
        .codec = (enum cshim_codec_id)(1 + fuzz_take(input, 1) % (CSHIM_CODEC_COUNT - 1)),
        .dtype = (enum cshim_dtype)(fuzz_take(input, 1) % CSHIM_DTYPE_COUNT),
        .count = 1 + (size_t)fuzz_take_any_length(input, FUZZ_COUNT_BITS) +
                 (fuzz_take(input, 1) % 32 == 31 ? FUZZ_TILE : 0),
        .offset = (size_t)fuzz_take(input, 1) % 16,
    };
    if (!cshim_codec_carries(taken.codec, taken.dtype))
        taken.dtype = CSHIM_FLOAT32;
    taken.element_bytes = cshim_dtype_bytes(taken.dtype);
    taken.encoded_bytes = cshim_encoded_bytes(taken.codec, taken.dtype, taken.count);
    return taken;
}

/* Selects a SIMD level. Returns false if this processor does not have it. */
static inline bool fuzz_use_level(int level)
{
    return cshim_simd_limit((enum cshim_simd)level) == (enum cshim_simd)level;
}

#endif
