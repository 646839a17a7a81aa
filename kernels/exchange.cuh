/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding the pieces of a segment. */
#ifndef CSHIM_EXCHANGE_CUH
#define CSHIM_EXCHANGE_CUH

#include "kernels/raw.cuh"

CSHIM_DEVICE void encode_pieces(const struct cshim_kernel_encode &parameters)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    for_each_grain(parameters.count, parameters.chunk, parameters.pieces, [&](struct grain grain) {
        const uint8_t *input =
            (const uint8_t *)parameters.input + parameters.input_stride * grain.piece * bytes;
        const struct place place = place_of(input, bytes, grain);
        const bool is_own = parameters.own != NULL && grain.piece == parameters.own_piece;
        uint8_t *message = is_own ? (uint8_t *)parameters.own
                                  : (uint8_t *)parameters.encoded + parameters.stride * grain.piece;
        const struct target target = {message, grain, grain.piece * parameters.chunk + grain.first};
        if (codec == CSHIM_CODEC_RAW) {
            encode_raw_grain(dtype, place, factor, raw_place(message, bytes, grain));
        } else {
            struct lane_values values;
            load_values(dtype, place, factor, values);
            encode_grain(codec, &target, &parameters.options, values);
        }
        if (grain.first == 0)
            write_header(message, parameters.header, grain.elements);
    });
}

CSHIM_DEVICE void decode_pieces(const struct cshim_kernel_decode &parameters)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    for_each_grain(parameters.count, parameters.chunk, parameters.pieces, [&](struct grain grain) {
        const uint8_t *message =
            (const uint8_t *)parameters.encoded + parameters.stride * grain.piece;
        uint8_t *output =
            (uint8_t *)parameters.output + parameters.output_stride * grain.piece * bytes;
        const struct place place = place_of(output, bytes, grain);
        if (grain.first == 0)
            check_header(message, parameters.header, grain.elements, grain.piece, parameters.fault);
        if (codec == CSHIM_CODEC_RAW) {
            copy_elements(bytes, raw_place(message, bytes, grain), place);
        } else {
            struct lane_values values;
            sum_parts<1>({codec, message, 0, 1, grain.elements}, grain.first, values);
            store_values(dtype, place, values);
        }
    });
}

#endif
