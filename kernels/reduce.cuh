/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the parts of all ranks, adding them in rank order and encoding the sum, in registers. */
#ifndef CSHIM_REDUCE_CUH
#define CSHIM_REDUCE_CUH

#include "kernels/exchange.cuh"

CSHIM_DEVICE const uint8_t *part_of(const struct cshim_kernel_reduce &parameters, uint32_t rank)
{
    return (const uint8_t *)parameters.parts + parameters.stride * rank;
}

CSHIM_DEVICE void check_headers(const struct cshim_kernel_reduce &parameters)
{
#pragma unroll 1
    for (uint32_t rank = 0; rank < parameters.ranks; rank++)
        check_header(part_of(parameters, rank), parameters.header, parameters.count, rank,
                     parameters.fault);
}

CSHIM_DEVICE void load_message_floats(const uint8_t *message, uint64_t first, uint64_t elements,
                                      float *values)
{
    uint32_t codes[LANE_ELEMENTS];
    load_codes<format<CSHIM_CODEC_FP32>>(message, first, elements, codes);
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values[i] = cshim_bits_float(codes[i]);
}

/* Adds the next parts, PARTS of them, of which all loads are under way at once; beyond the last
 * they are nothing. Returns false, with the sum as it was, if they have to be added one by one. */
template <typename FORMAT, int PARTS>
CSHIM_DEVICE bool add_parts(const struct cshim_kernel_reduce &parameters, uint64_t first,
                            uint32_t rank, float *sum)
{
    uint32_t codes[PARTS][FORMAT::WORDS], stored[PARTS];
    bool is_fast = true;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        stored[i] = FORMAT::UNIT;
#pragma unroll
        for (int k = 0; k < FORMAT::WORDS; k++)
            codes[i][k] = FORMAT::nothing(k);
        if (rank + i < parameters.ranks)
            stored[i] = load_codes<FORMAT>(part_of(parameters, rank + i), first, parameters.count,
                                           codes[i]);
    }
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        is_fast = is_fast && FORMAT::is_fast(codes[i], FORMAT::load(stored[i]));
    if (is_fast) {
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            FORMAT::add_fast(codes[i], FORMAT::load(stored[i]), sum);
    }
    return is_fast;
}

CSHIM_RARE void add_singly(const struct cshim_kernel_reduce *parameters, uint64_t first,
                           uint32_t rank, uint32_t end, struct lane_values *sum)
{
    const uint32_t codec = part_codec(parameters->codec, parameters->dtype);
#pragma unroll 1
    for (; rank < end && rank < parameters->ranks; rank++) {
        const uint8_t *part = part_of(*parameters, rank);
#pragma unroll 1
        for (int i = 0; i < LANE_ELEMENTS && first + i < parameters->count; i++)
            sum->value[i] = sum->value[i] + value_at(codec, part, parameters->count, first + i);
    }
}

/* The sum of a grain, multiplied, with NaNs canonical. */
CSHIM_DEVICE void sum_parts(const struct cshim_kernel_reduce &parameters, uint64_t first,
                            struct factor factor, float *sum)
{
    const uint32_t codec = part_codec(parameters.codec, parameters.dtype);
    if (codec == CSHIM_CODEC_FP32 && parameters.ranks == 1) {
        /* Nothing is added: NaNs keep their payload. */
        load_message_floats(part_of(parameters, 0), first, parameters.count, sum);
        multiply_all(sum, factor);
        return;
    }
    /* The sum of -0 and a value is the value. */
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum[i] = -0.0f;
    uint32_t step = 0;
#pragma unroll 1
    for (uint32_t rank = 0; rank < parameters.ranks; rank += step) {
        bool is_fast = false;
        with_format<true>(codec, [&](auto format) {
            typedef decltype(format) FORMAT;
            const int parts = FORMAT::WORDS > 2 ? 2 : 4;
            step = parts;
            is_fast = add_parts<FORMAT, parts>(parameters, first, rank, sum);
        });
        if (is_fast)
            continue;
        struct lane_values copy;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            copy.value[i] = sum[i];
        add_singly(&parameters, first + LANE_ELEMENTS * lane_number(), rank, rank + step, &copy);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            sum[i] = copy.value[i];
    }
    make_canonical(sum);
    multiply_all(sum, factor);
}

/* Where a grain of the sum goes as a message. */
CSHIM_DEVICE struct target sum_target(const struct cshim_kernel_reduce &parameters, uint64_t first,
                                      int valid)
{
    struct target target;
    target.message = (uint8_t *)parameters.reencoded;
    target.first = first;
    target.elements = parameters.count;
    target.number = first;
    target.valid = valid;
    return target;
}

/* Writes a sum as a message of the codec raw. */
CSHIM_DEVICE void store_raw(uint32_t dtype, const struct target *target, const float *values)
{
    struct place place;
    int64_t left;
    place.address =
        raw_place(target->message, element_bytes(dtype), target->first, target->elements, &left);
    place.is_plain = target->elements >= target->first + CSHIM_GRAIN;
    const int64_t room = left > 0 ? left / element_bytes(dtype) : 0;
    place.valid = room < LANE_ELEMENTS ? (int)room : LANE_ELEMENTS;
    store_values(dtype, &place, values);
}

CSHIM_DEVICE void reduce_chunk(const struct cshim_kernel_reduce &parameters)
{
    const uint32_t dtype = parameters.dtype;
    const struct factor factor = read_factor(parameters.factor, NULL, dtype);
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.count, &stride);
    for (; walk.piece < 1; next_grain(&walk, &stride, parameters.count, parameters.count)) {
        if (walk.first >= walk.elements)
            continue;
        if (walk.first == 0)
            check_headers(parameters);
        float sum[LANE_ELEMENTS];
        sum_parts(parameters, walk.first, factor, sum);
        const struct place place =
            place_of(parameters.output, element_bytes(dtype), walk.first, walk.elements);
        const struct target target = sum_target(parameters, walk.first, place.valid);
        if (parameters.output != NULL)
            store_values(dtype, &place, sum);
        if (parameters.reencoded == NULL)
            continue;
        zero_invalid(sum, place.valid);
        if (parameters.codec == CSHIM_CODEC_RAW)
            store_raw(dtype, &target, sum);
        else
            encode_grain(parameters.codec, &target, &parameters.options, sum);
        if (walk.first == 0)
            write_header(target.message, parameters.reencoded_header, walk.elements);
    }
}

/* One element of a part in float64. */
CSHIM_DEVICE double part_element(const struct cshim_kernel_reduce &parameters, uint32_t rank,
                                 uint64_t element)
{
    const uint8_t *part = part_of(parameters, rank);
    if (parameters.codec == CSHIM_CODEC_RAW)
        return ((const double *)(part + HEADER_BYTES))[element];
    return cshim_widen_float(value_at(parameters.codec, part, parameters.count, element));
}

CSHIM_DEVICE double sum_element(const struct cshim_kernel_reduce &parameters, uint64_t element,
                                struct factor factor)
{
    double sum = 0.0;
#pragma unroll 1
    for (uint32_t rank = 0; rank < parameters.ranks; rank++) {
        const double value = part_element(parameters, rank, element);
        sum = rank == 0 ? value : cshim_sum_double(sum, value);
    }
    return multiply_double(sum, factor);
}

/* Sums and stores a lane's elements one by one, and leaves them as values to encode. */
CSHIM_DEVICE void sum_doubles(const struct cshim_kernel_reduce &parameters, uint64_t first,
                              struct factor factor, struct lane_values *values)
{
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

CSHIM_DEVICE void reduce_doubles(const struct cshim_kernel_reduce &parameters)
{
    const struct factor factor = read_factor(parameters.factor, NULL, CSHIM_FLOAT64);
    struct stride stride;
    struct walk walk = begin_walk(parameters.count, parameters.count, &stride);
    for (; walk.piece < 1; next_grain(&walk, &stride, parameters.count, parameters.count)) {
        if (walk.first >= walk.elements)
            continue;
        if (walk.first == 0)
            check_headers(parameters);
        const struct place place =
            place_of(parameters.output, sizeof(double), walk.first, walk.elements);
        const struct target target = sum_target(parameters, walk.first, place.valid);
        struct lane_values values;
        sum_doubles(parameters, walk.first + LANE_ELEMENTS * lane_number(), factor, &values);
        if (parameters.reencoded == NULL)
            continue;
        if (parameters.codec != CSHIM_CODEC_RAW) {
            encode_grain_with(parameters.codec, &target, &parameters.options, &values);
            end_message(parameters.codec, &target);
        }
        if (walk.first == 0)
            write_header(target.message, parameters.reencoded_header, walk.elements);
    }
}

CSHIM_DEVICE void reduce_parts(const struct cshim_kernel_reduce &parameters)
{
    if (parameters.dtype == CSHIM_FLOAT64)
        reduce_doubles(parameters);
    else
        reduce_chunk(parameters);
}

#endif
