/* SPDX-License-Identifier: Apache-2.0 */
/* What the algorithm cast needs: the largest magnitude, narrowing and widening. */
#ifndef CSHIM_CAST_CUH
#define CSHIM_CAST_CUH

#include "kernels/message.cuh"

CSHIM_DEVICE void find_buffer_largest(const struct cshim_kernel_largest &parameters)
{
    const struct factor factor =
        read_factor(parameters.factor, parameters.factor_at, parameters.dtype);
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.count, &stride);
    uint32_t largest = 0;
    for (; walk.piece < 1; next_grain(&walk, &stride, parameters.count, parameters.count)) {
        float values[LANE_ELEMENTS];
        const struct place place =
            place_of(parameters.input, element_bytes(parameters.dtype), walk.first, walk.elements);
        load_values(parameters.dtype, &place, factor, values);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            largest = max(largest, cshim_finite_magnitude(values[i]));
    }
    largest = block_largest<CSHIM_GRAIN>(largest);
    if (lane_number() == 0 && largest > 0)
        atomicMax(parameters.largest, largest);
}

/* The exponent that a whole buffer is narrowed with. */
CSHIM_DEVICE int cast_scale(const struct cshim_kernel_cast &parameters)
{
    if (parameters.codec != CSHIM_CODEC_FP16)
        return 0;
    return cshim_cast_exponent(*parameters.largest, (int)parameters.headroom);
}

/* Infinities and NaNs in fp16. */
CSHIM_RARE void narrow_singly(int exponent, const struct lane_values *values,
                              struct lane_codes *codes)
{
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS / 2; i++)
        codes->word[i] = cshim_fp16_encode(values->value[2 * i], exponent) |
                         (uint32_t)cshim_fp16_encode(values->value[2 * i + 1], exponent) << 16;
}

CSHIM_RARE void widen_singly(int exponent, const struct lane_codes *codes,
                             struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values->value[i] = cshim_fp16_decode((uint16_t)get_code(codes->word, 16, i), exponent);
}

/* A lane's codes in a buffer without header and padding; all codes are of 16 or 32 bits. */
template <typename FORMAT>
CSHIM_DEVICE void store_cast(const struct place *place, const uint32_t *codes)
{
    if (place->is_plain) {
        store_units<FORMAT::WORDS / 4>(place->address, codes);
        return;
    }
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        if (i < place->valid && FORMAT::BITS == 32)
            ((uint32_t *)place->address)[i] = codes[i % FORMAT::WORDS];
        else if (i < place->valid)
            ((uint16_t *)place->address)[i] = (uint16_t)(codes[i / 2] >> i % 2 * 16);
    }
}

template <typename FORMAT> CSHIM_DEVICE void load_cast(const struct place *place, uint32_t *codes)
{
    if (place->is_plain) {
        load_units<FORMAT::WORDS / 4>(place->address, codes);
        return;
    }
#pragma unroll
    for (int i = 0; i < FORMAT::WORDS; i++)
        codes[i] = 0;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        if (i < place->valid && FORMAT::BITS == 32)
            codes[i % FORMAT::WORDS] = ((const uint32_t *)place->address)[i];
        else if (i < place->valid)
            codes[i / 2] |= (uint32_t)((const uint16_t *)place->address)[i] << i % 2 * 16;
    }
}

/* Calls a function with the format of one of the codecs of 16 or 32 bits. */
template <typename FUNCTION> CSHIM_DEVICE void with_plain_format(uint32_t codec, FUNCTION function)
{
    if (codec == CSHIM_CODEC_FP16)
        function(format<CSHIM_CODEC_FP16>());
    else if (codec == CSHIM_CODEC_BF16)
        function(format<CSHIM_CODEC_BF16>());
    else
        function(format<CSHIM_CODEC_FP32>());
}

CSHIM_DEVICE void narrow_buffer(const struct cshim_kernel_cast &parameters)
{
    const uint32_t dtype = parameters.dtype;
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    const int scale = cast_scale(parameters);
    const unsigned code_bytes = parameters.codec == CSHIM_CODEC_FP32 ? 4 : 2;
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.count, &stride);
    for (; walk.piece < 1; next_grain(&walk, &stride, parameters.count, parameters.count)) {
        if (walk.first >= walk.elements)
            continue;
        float values[LANE_ELEMENTS];
        const struct place from =
            place_of(parameters.input, element_bytes(dtype), walk.first, walk.elements);
        const struct place to = place_of(parameters.output, code_bytes, walk.first, walk.elements);
        load_values(dtype, &from, factor, values);
        const bool is_finite = lane_largest(values) < CSHIM_INFINITY_BITS;
        with_plain_format(parameters.codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            uint32_t codes[FORMAT::WORDS];
            FORMAT::encode_fast(values, scale, codes);
            if (FORMAT::CODEC == CSHIM_CODEC_FP16 && !is_finite) {
                struct lane_values copy;
                struct lane_codes result;
#pragma unroll
                for (int i = 0; i < LANE_ELEMENTS; i++)
                    copy.value[i] = values[i];
                narrow_singly(scale, &copy, &result);
#pragma unroll
                for (int i = 0; i < FORMAT::WORDS; i++)
                    codes[i] = result.word[i];
            }
            store_cast<FORMAT>(&to, codes);
        });
    }
}

/* float64 is multiplied as such. */
CSHIM_RARE void widen_doubles(const struct lane_values *values, int valid, struct factor factor,
                              double *output)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        output[i] = multiply_double(cshim_widen_float(values->value[i]), factor);
}

CSHIM_DEVICE void widen_buffer(const struct cshim_kernel_cast &parameters)
{
    const uint32_t dtype = parameters.dtype;
    const struct factor factor = read_factor(parameters.factor, NULL, dtype);
    const int scale = cast_scale(parameters);
    const unsigned code_bytes = parameters.codec == CSHIM_CODEC_FP32 ? 4 : 2;
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.count, &stride);
    for (; walk.piece < 1; next_grain(&walk, &stride, parameters.count, parameters.count)) {
        if (walk.first >= walk.elements)
            continue;
        struct lane_values values;
        const struct place from = place_of(parameters.input, code_bytes, walk.first, walk.elements);
        const struct place to =
            place_of(parameters.output, element_bytes(dtype), walk.first, walk.elements);
        with_plain_format(parameters.codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            struct lane_codes codes;
            load_cast<FORMAT>(&from, codes.word);
#pragma unroll
            for (int i = 0; i < LANE_ELEMENTS; i++)
                values.value[i] = FORMAT::IS_EXACT ? cshim_bits_float(codes.word[i]) : -0.0f;
            if (!FORMAT::is_fast(codes.word, scale))
                widen_singly(scale, &codes, &values);
            else if (!FORMAT::IS_EXACT)
                FORMAT::add_fast(codes.word, scale, values.value);
        });
        if (parameters.codec != CSHIM_CODEC_FP32)
            make_canonical(values.value);
        if (dtype == CSHIM_FLOAT64) {
            widen_doubles(&values, to.valid, factor, (double *)to.address);
        } else {
            multiply_all(values.value, factor);
            store_values(dtype, &to, values.value);
        }
    }
}

#endif
