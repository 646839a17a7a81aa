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
    switch (codec) {
    case CSHIM_CODEC_FP16:
        return cshim_fp16_encode(value, (int)stored + CSHIM_FP16_MIN_SCALE);
    case CSHIM_CODEC_BF16:
        return cshim_bf16_encode(value);
    case CSHIM_CODEC_FP8_E4M3:
        return cshim_e4m3_encode(value, (int)stored + CSHIM_E4M3_MIN_SCALE);
    case CSHIM_CODEC_FP8_E5M2:
        return cshim_e5m2_encode(value, (int)stored + CSHIM_E5M2_MIN_SCALE);
    case CSHIM_CODEC_INT8:
        return (uint8_t)cshim_int8_encode(value, scaling_of((uint16_t)stored));
    case CSHIM_CODEC_INT4:
        return cshim_int4_encode(value, scaling_of((uint16_t)stored));
    default:
        return cshim_float_bits(value);
    }
}

/* The same of a finite value, rounded at random. */
CSHIM_RARE uint32_t random_element(uint32_t codec, float value, uint32_t stored, uint32_t random)
{
    switch (codec) {
    case CSHIM_CODEC_FP16:
        return cshim_fp16_random(value, (int)stored + CSHIM_FP16_MIN_SCALE, random);
    case CSHIM_CODEC_BF16:
        return cshim_bf16_random(value, random);
    case CSHIM_CODEC_FP8_E4M3:
        return cshim_e4m3_random(value, (int)stored + CSHIM_E4M3_MIN_SCALE, random);
    case CSHIM_CODEC_FP8_E5M2:
        return cshim_e5m2_random(value, (int)stored + CSHIM_E5M2_MIN_SCALE, random);
    case CSHIM_CODEC_INT8:
        return (uint8_t)cshim_int8_random(value, scaling_of((uint16_t)stored), random);
    case CSHIM_CODEC_INT4:
        return cshim_int4_random(value, scaling_of((uint16_t)stored), random);
    default:
        return cshim_float_bits(value);
    }
}

CSHIM_RARE float decode_element(uint32_t codec, uint32_t code, uint32_t stored)
{
    switch (codec) {
    case CSHIM_CODEC_FP16:
        return cshim_fp16_decode((uint16_t)code, (int)stored + CSHIM_FP16_MIN_SCALE);
    case CSHIM_CODEC_BF16:
        return cshim_bf16_decode((uint16_t)code);
    case CSHIM_CODEC_FP8_E4M3:
        return cshim_e4m3_decode((uint8_t)code, (int)stored + CSHIM_E4M3_MIN_SCALE);
    case CSHIM_CODEC_FP8_E5M2:
        return cshim_e5m2_decode((uint8_t)code, (int)stored + CSHIM_E5M2_MIN_SCALE);
    case CSHIM_CODEC_INT8:
        return cshim_int8_decode((int8_t)code, (uint16_t)stored);
    case CSHIM_CODEC_INT4:
        return cshim_int4_decode((uint8_t)code, (uint16_t)stored);
    default:
        return cshim_bits_float(code);
    }
}

struct lane_codes {
    uint32_t word[LANE_ELEMENTS];
};

/* Adds a code of so many bits to those before it; the words are zeros to begin with. */
CSHIM_DEVICE void put_code(struct lane_codes *codes, unsigned bits, int i, uint32_t code)
{
    codes->word[bits * i / 32] |= code << bits * i % 32;
}

CSHIM_DEVICE uint32_t get_code(const struct lane_codes *codes, unsigned bits, int i)
{
    return codes->word[bits * i / 32] >> bits * i % 32 & (0xffffffffu >> (32 - bits));
}

/* float16 elements as the codec raw has them, beside the codecs' numbers. */
#define RAW_HALF ((uint32_t)CSHIM_CODEC_COUNT)

/* A codec's layout where the codec is not known when this is compiled. */
struct codec_layout {
    unsigned bits, block, scale_bytes;
};

CSHIM_DEVICE struct codec_layout layout_of(uint32_t codec)
{
    switch (codec) {
    case CSHIM_CODEC_FP16:
        return {16, CSHIM_FP16_BLOCK, 1};
    case CSHIM_CODEC_BF16:
    case RAW_HALF:
        return {16, CSHIM_GRAIN, 0};
    case CSHIM_CODEC_FP8_E4M3:
    case CSHIM_CODEC_FP8_E5M2:
        return {8, CSHIM_E4M3_BLOCK, 1};
    case CSHIM_CODEC_INT8:
        return {8, CSHIM_INT8_BLOCK, 2};
    case CSHIM_CODEC_INT4:
        return {4, CSHIM_INT4_BLOCK, 2};
    default:
        return {32, CSHIM_GRAIN, 0};
    }
}

/* The scale, as messages have it, of a block with the largest finite magnitude given. */
CSHIM_DEVICE uint32_t choose_scale(uint32_t codec, uint32_t largest, bool at_random)
{
    switch (codec) {
    case CSHIM_CODEC_FP16:
        return format<CSHIM_CODEC_FP16>::store(
            format<CSHIM_CODEC_FP16>::choose(largest, at_random));
    case CSHIM_CODEC_FP8_E4M3:
        return format<CSHIM_CODEC_FP8_E4M3>::store(
            format<CSHIM_CODEC_FP8_E4M3>::choose(largest, at_random));
    case CSHIM_CODEC_FP8_E5M2:
        return format<CSHIM_CODEC_FP8_E5M2>::store(
            format<CSHIM_CODEC_FP8_E5M2>::choose(largest, at_random));
    case CSHIM_CODEC_INT8:
    case CSHIM_CODEC_INT4:
        return integer_scale_of(largest, codec == CSHIM_CODEC_INT4);
    default:
        return 0;
    }
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
    case CSHIM_CODEC_FP16:
        function(format<CSHIM_CODEC_FP16>());
        break;
    case CSHIM_CODEC_BF16:
        function(format<CSHIM_CODEC_BF16>());
        break;
    case CSHIM_CODEC_FP8_E4M3:
        function(format<CSHIM_CODEC_FP8_E4M3>());
        break;
    case CSHIM_CODEC_FP8_E5M2:
        function(format<CSHIM_CODEC_FP8_E5M2>());
        break;
    case CSHIM_CODEC_INT8:
        function(format<CSHIM_CODEC_INT8>());
        break;
    case CSHIM_CODEC_INT4:
        function(format<CSHIM_CODEC_INT4>());
        break;
    case RAW_HALF:
        if (PARTS)
            function(raw_half());
        break;
    default:
        function(format<CSHIM_CODEC_FP32>());
    }
}

#endif
