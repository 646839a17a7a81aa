/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs by their numbers, which are not known before a kernel runs: single elements, through
 * codecs/scalar.h in functions that exist once per kernel, and the way to a codec's type.
 */
#ifndef CSHIM_CODECS_CUH
#define CSHIM_CODECS_CUH

#include "kernels/formats.cuh"

/* One element of any codec but raw. `stored` is the scale as messages have it. */
CSHIM_RARE uint32_t encode_element(uint32_t codec, float value, uint32_t stored)
{
    const struct cshim_format format = cshim_format(codec);
    return cshim_encode_nearest(format, value, cshim_scaling(format, stored));
}

/* A finite value, rounded at random. */
CSHIM_RARE uint32_t random_element(uint32_t codec, float value, uint32_t stored, uint32_t random)
{
    const struct cshim_format format = cshim_format(codec);
    return cshim_encode_random(format, value, cshim_scaling(format, stored), random);
}

CSHIM_RARE float decode_element(uint32_t codec, uint32_t code, uint32_t stored)
{
    return cshim_decode_code(cshim_format(codec), code, stored);
}

struct lane_codes {
    uint32_t word[LANE_ELEMENTS];
};

/* float16 elements as the codec raw has them, beside the codecs' numbers: fp16 without scales. */
#define RAW_HALF ((uint32_t)CSHIM_CODEC_COUNT)

/* A codec's layout where the codec is not known when this is compiled; a block has
 * 2^block_exponent elements. */
struct codec_layout {
    unsigned bits, block_exponent, scale_bytes;
};

CSHIM_DEVICE struct codec_layout layout_of(uint32_t codec)
{
    if (codec == RAW_HALF)
        return {16, 0, 0};
    const struct cshim_format format = cshim_format(codec);
    return {(unsigned)format.bits, (unsigned)__ffs(format.block) - 1, (unsigned)format.scale_bytes};
}

/* What a part of a reduction is read as: of the codec raw, the format of the element type. */
CSHIM_DEVICE uint32_t part_codec(uint32_t codec, uint32_t dtype)
{
    if (codec != CSHIM_CODEC_RAW)
        return codec;
    return dtype == CSHIM_FLOAT16    ? RAW_HALF
           : dtype == CSHIM_BFLOAT16 ? (uint32_t)CSHIM_CODEC_BF16
                                     : (uint32_t)CSHIM_CODEC_FP32;
}

/* Calls a function with the format of a codec; not of raw. */
template <bool PARTS, typename FUNCTION>
CSHIM_DEVICE void with_format(uint32_t codec, FUNCTION function)
{
    switch (codec) {
#define FLOAT(ID, ...)                                                                             \
    case ID:                                                                                       \
        function(format<ID>());                                                                    \
        break;
#define INTEGER FLOAT
#include "codecs/formats.def"
    case CSHIM_CODEC_BF16:
        function(format<CSHIM_CODEC_BF16>());
        break;
    case RAW_HALF:
        if (PARTS)
            function(raw_half());
        break;
    default:
        function(format<CSHIM_CODEC_FP32>());
    }
}

/* The scale of a block whose largest finite magnitude is given, as messages have it. */
CSHIM_DEVICE uint32_t choose_scale(uint32_t codec, uint32_t largest, bool at_random)
{
    uint32_t stored = 0;
    with_format<false>(codec, [&](auto format) {
        typedef decltype(format) FORMAT;
        stored = FORMAT::store(FORMAT::choose(largest, at_random));
    });
    return stored;
}

#endif
