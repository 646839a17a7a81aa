/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the parts of all ranks, adding them in rank order and encoding the sum, in registers. */
#ifndef CSHIM_REDUCE_CUH
#define CSHIM_REDUCE_CUH

#include "kernels/raw.cuh"

CSHIM_DEVICE const uint8_t *part_of(const struct cshim_kernel_reduce &parameters, uint32_t rank)
{
    return (const uint8_t *)parameters.parts + parameters.stride * rank;
}

CSHIM_DEVICE double sum_element(const struct cshim_kernel_reduce &parameters, uint64_t element,
                                struct factor factor)
{
    double sum = 0.0;
#pragma unroll 1
    for (uint32_t rank = 0; rank < parameters.ranks; rank++) {
        const uint8_t *part = part_of(parameters, rank);
        const double value =
            parameters.codec == CSHIM_CODEC_RAW
                ? ((const double *)(part + HEADER_BYTES))[element]
                : cshim_widen_float(value_at(parameters.codec, part, parameters.count, element));
        sum = rank == 0 ? value : cshim_sum_double(sum, value);
    }
    return multiply_double(sum, factor);
}

/* Adds a lane's elements of float64 one by one. Stores the sums in the output and, if the codec is
 * raw, in the message; leaves them as values to encode. */
CSHIM_RARE void sum_doubles(const struct cshim_kernel_reduce &parameters, uint64_t first,
                            struct lane_values *values)
{
    const struct factor factor = read_factor(parameters.factor, NULL, CSHIM_FLOAT64);
    double *const output = (double *)parameters.output;
    const bool is_raw = parameters.codec == CSHIM_CODEC_RAW && parameters.reencoded != NULL;
    double *const raw = (double *)((uint8_t *)parameters.reencoded + HEADER_BYTES);
    const uint64_t end = padded(parameters.count * sizeof(double)) / sizeof(double);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const bool is_valid = first + i < parameters.count;
        const double sum = is_valid ? sum_element(parameters, first + i, factor) : 0.0;
        if (is_valid && output != NULL)
            output[first + i] = sum;
        if (is_raw && first + i < end)
            raw[first + i] = sum;
        values->value[i] = cshim_narrow_double(sum);
    }
}

CSHIM_DEVICE void reduce_parts(const struct cshim_kernel_reduce &parameters)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    const struct factor factor = read_factor(parameters.factor, NULL, dtype);
    const struct parts parts = {part_codec(codec, dtype), (const uint8_t *)parameters.parts,
                                parameters.stride, parameters.ranks, parameters.count};
    uint8_t *const message = (uint8_t *)parameters.reencoded;
    for_each_grain(parameters.count, parameters.count, 1, [&](struct grain grain) {
        struct lane_values sum;
#pragma unroll 1
        for (uint32_t rank = 0; rank < parameters.ranks && grain.first == 0; rank++)
            check_header(part_of(parameters, rank), parameters.header, grain.elements, rank,
                         parameters.fault);
        if (dtype == CSHIM_FLOAT64) {
            struct lane_values narrowed;
            sum_doubles(parameters, grain.first + LANE_ELEMENTS * lane_number(), &narrowed);
            sum = narrowed;
        } else {
            sum_parts<4>(parts, grain.first, sum);
            multiply_all(sum, factor);
            if (parameters.output != NULL)
                store_values(dtype, place_of(parameters.output, bytes, grain), sum);
            zero_invalid(sum, valid_elements(grain));
        }
        if (message == NULL)
            return;
        const struct target target = {message, grain, grain.first};
        if (codec != CSHIM_CODEC_RAW)
            encode_grain(codec, &target, &parameters.options, sum);
        else if (dtype != CSHIM_FLOAT64)
            store_values(dtype, raw_place(message, bytes, grain), sum);
        if (grain.first == 0)
            write_header(message, parameters.reencoded_header, grain.elements);
    });
}

#endif
