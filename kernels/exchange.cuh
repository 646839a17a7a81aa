/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding the pieces of a segment: a warp per grain, striding over all pieces. */
#ifndef CSHIM_EXCHANGE_CUH
#define CSHIM_EXCHANGE_CUH

#include "kernels/raw.cuh"

CSHIM_DEVICE struct target target_of(const struct cshim_kernel_encode &parameters,
                                     const struct walk *walk, int valid)
{
    struct target target;
    target.message = (uint8_t *)parameters.encoded + parameters.stride * walk->piece;
    if (parameters.own != NULL && walk->piece == parameters.own_piece)
        target.message = (uint8_t *)parameters.own;
    target.first = walk->first;
    target.elements = walk->elements;
    target.number = walk->piece * parameters.chunk + walk->first;
    target.valid = valid;
    return target;
}

CSHIM_DEVICE void encode_pieces(const struct cshim_kernel_encode &parameters)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.chunk, &stride);
    for (; walk.piece < parameters.pieces;
         next_grain(&walk, &stride, parameters.count, parameters.chunk)) {
        if (walk.first >= walk.elements)
            continue;
        const struct place place = place_of((const uint8_t *)parameters.input +
                                                parameters.input_stride * walk.piece * bytes,
                                            bytes, walk.first, walk.elements);
        const struct target target = target_of(parameters, &walk, place.valid);
        if (codec == CSHIM_CODEC_RAW) {
            encode_raw_grain(dtype, &place, factor, &target);
        } else {
            float values[LANE_ELEMENTS];
            load_values(dtype, &place, factor, values);
            encode_grain(codec, &target, &parameters.options, values);
        }
        if (walk.first == 0)
            write_header(target.message, parameters.header, walk.elements);
    }
}

CSHIM_RARE void decode_singly(uint32_t codec, const uint8_t *message, uint64_t first,
                              uint64_t elements, struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values->value[i] =
            first + i < elements ? value_at(codec, message, elements, first + i) : 0.0f;
}

/* Decodes the lane's values of a grain. */
CSHIM_DEVICE void decode_values(uint32_t codec, const uint8_t *message, uint64_t first,
                                uint64_t elements, float *values)
{
    bool is_fast = false;
    with_format<false>(codec, [&](auto format) {
        typedef decltype(format) FORMAT;
        uint32_t codes[FORMAT::WORDS];
        const typename FORMAT::scale scale =
            FORMAT::load(load_codes<FORMAT>(message, first, elements, codes));
        is_fast = FORMAT::is_fast(codes, scale);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values[i] = FORMAT::IS_EXACT ? cshim_bits_float(codes[i % FORMAT::WORDS]) : -0.0f;
        if (!FORMAT::IS_EXACT)
            FORMAT::add_fast(codes, scale, values);
    });
    if (!is_fast) {
        struct lane_values decoded;
        decode_singly(codec, message, first + LANE_ELEMENTS * lane_number(), elements, &decoded);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values[i] = decoded.value[i];
    }
    if (codec != CSHIM_CODEC_FP32)
        make_canonical(values);
}

CSHIM_DEVICE void decode_pieces(const struct cshim_kernel_decode &parameters)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.chunk, &stride);
    for (; walk.piece < parameters.pieces;
         next_grain(&walk, &stride, parameters.count, parameters.chunk)) {
        if (walk.first >= walk.elements)
            continue;
        const uint8_t *message =
            (const uint8_t *)parameters.encoded + parameters.stride * walk.piece;
        const struct place place = place_of((const uint8_t *)parameters.output +
                                                parameters.output_stride * walk.piece * bytes,
                                            bytes, walk.first, walk.elements);
        if (walk.first == 0)
            check_header(message, parameters.header, walk.elements, walk.piece, parameters.fault);
        if (codec == CSHIM_CODEC_RAW) {
            decode_raw_grain(dtype, message, walk.first, walk.elements, &place);
        } else {
            float values[LANE_ELEMENTS];
            decode_values(codec, message, walk.first, walk.elements, values);
            store_values(dtype, &place, values);
        }
    }
}

#endif
