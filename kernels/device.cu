/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the kernels (kernels.h). Each operation has one kernel for all codecs,
 * because the library contains every kernel once for each architecture and has to stay small. */
#include "kernels/message.cuh"

/* A multiprocessor of compute capability 7.5 holds at most four blocks. From compute
 * capability 10.0 on ptxas spills registers with five. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ >= 1000)
#define BLOCKS(wanted) ((wanted) < 4 ? (wanted) : 4)
#else
#define BLOCKS(wanted) (wanted)
#endif

/* Defines a kernel whose parameter is called `parameters`. `blocks` is the number of blocks that a
 * multiprocessor must be able to hold at once: the largest number that leaves the kernel's loop
 * enough registers. BLOCKS lowers it to four on some devices. */
#define KERNEL(name, parameter, blocks)                                                            \
    extern "C" __global__ void __launch_bounds__(CSHIM_KERNEL_THREADS, BLOCKS(blocks))             \
        cshim_##name(const __grid_constant__ struct cshim_kernel_##parameter parameters)

/* Encoding, decoding and reducing the pieces of a segment -------------------------------------- */
/* Returns the lane's part of a grain in a message of the codec raw. The elements that pad the
 * message count as valid. */
CSHIM_DEVICE struct place raw_place(const struct message &message, unsigned bytes,
                                    const struct grain &grain)
{
    struct place place = place_of(buffer_of(message.payload, bytes, grain.elements), grain);
    const unsigned odd = bytes == 8 ? 1 : bytes == 4 ? 3 : 7;
    place.valid = valid_of((grain_elements(grain) + odd) & ~odd);
    return place;
}

/* Stores `end` elements one by one: copies of the first `valid`, then zeros. */
CSHIM_RARE void copy_singly(unsigned bytes, const uint8_t *from, int valid, uint8_t *to, int end)
{
#pragma unroll 1
    for (int i = 0; i < end; i++)
        if (bytes == 8)
            ((uint64_t *)to)[i] = i < valid ? ((const uint64_t *)from)[i] : 0;
        else if (bytes == 4)
            ((uint32_t *)to)[i] = i < valid ? ((const uint32_t *)from)[i] : 0;
        else
            ((uint16_t *)to)[i] = i < valid ? ((const uint16_t *)from)[i] : 0;
}

/* Copies a whole grain, in which each lane has `UNITS` units of 16 bytes. */
template <int UNITS> CSHIM_DEVICE void copy_units(const uint8_t *from, uint8_t *to)
{
    uint32_t words[4 * UNITS];
    load_units<UNITS, 32>(from, words);
    store_units<UNITS, 32>(to, words);
}

/* Copies a lane's elements. If both places are plain, the lanes copy neighbouring units of the
 * grain instead of their own elements, because storing half a sector costs as much as a whole one.
 */
CSHIM_DEVICE void copy_elements(unsigned bytes, const struct place &from, const struct place &to)
{
    const unsigned before = (LANE_ELEMENTS * bytes - 16) * lane_number();
    if (!from.is_plain || !to.is_plain)
        copy_singly(bytes, from.address, from.valid, to.address, to.valid);
    else if (bytes == 2)
        copy_units<1>(from.address - before, to.address - before);
    else if (bytes == 4)
        copy_units<2>(from.address - before, to.address - before);
    else
        copy_units<4>(from.address - before, to.address - before);
}

CSHIM_RARE void multiply_doubles(const double *from, int valid, struct factor factor, double *to,
                                 int end)
{
#pragma unroll 1
    for (int i = 0; i < end; i++)
        to[i] = i < valid ? multiply_double(from[i], factor) : 0.0;
}

/* Multiplies elements of any type except float64. */
CSHIM_RARE void multiply_elements(uint32_t dtype, struct place from, struct factor factor,
                                  struct place to)
{
    struct lane_values values;
    load_values_singly(dtype, from.address, from.valid, factor, &values);
    store_values_singly<false>(dtype, to.address, to.valid, &values);
}

CSHIM_DEVICE void encode_raw_grain(uint32_t dtype, const struct place &from, struct factor factor,
                                   const struct place &to)
{
    if (factor.is_one)
        copy_elements(element_bytes(dtype), from, to);
    else if (dtype == CSHIM_FLOAT64)
        multiply_doubles((const double *)from.address, from.valid, factor, (double *)to.address,
                         to.valid);
    else
        multiply_elements(dtype, from, factor, to);
}

KERNEL(encode, encode, 5)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    const unsigned bytes = element_bytes(dtype);
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    const auto encode_piece = [&](struct grain &first) {
        const uint8_t *input =
            (const uint8_t *)parameters.input + parameters.input_stride * first.piece * bytes;
        const struct buffer buffer = buffer_of(input, bytes, first.elements);
        const bool is_own = parameters.own != NULL && first.piece == parameters.own_piece;
        void *to = is_own ? parameters.own
                          : (uint8_t *)parameters.encoded + parameters.stride * first.piece;
        const struct message message = message_at(&parameters.format, to, first.elements);
        return for_each_grain(first, [&](const struct grain &grain) {
            const struct place place = place_of(buffer, grain);
            if (codec == CSHIM_CODEC_RAW) {
                encode_raw_grain(dtype, place, factor, raw_place(message, bytes, grain));
            } else {
                struct lane_values values;
                load_values(dtype, place, factor, values);
                encode_grain(parameters, parameters.chunk, message, grain, values,
                             lane_largest(values));
            }
            if (grain.number == 0)
                begin_message(&parameters.format, message, parameters.header, grain.elements);
            return true;
        });
    };
    for_each_piece(parameters.count, parameters.chunk, parameters.pieces, encode_piece,
                   [](const struct grain &) {});
}

/* Returns the output buffer of the grain's piece. */
CSHIM_DEVICE struct buffer output_of(const struct cshim_kernel_decode &parameters,
                                     const struct grain &grain)
{
    const unsigned bytes = element_bytes(parameters.dtype);
    return buffer_of((uint8_t *)parameters.output + parameters.output_stride * grain.piece * bytes,
                     bytes, grain.elements);
}

/* Stores a lane's values of a grain. First decodes them, one by one, if is_known is false. */
CSHIM_RARE void decode_rest(const struct cshim_kernel_decode *parameters, struct grain grain,
                            bool is_known, struct lane_values values)
{
    if (!is_known) {
        struct lane_values made;
        const uint8_t *at = (const uint8_t *)parameters->encoded + parameters->stride * grain.piece;
        sum_singly(&parameters->format, message_at(&parameters->format, at, grain.elements), 0, 1,
                   first_element(grain), valid_elements(grain), &made);
        values = made;
    }
    finish_sum(parameters->codec, true, values);
    const struct place place = place_of(output_of(*parameters, grain), grain);
    const struct lane_values stored = values;
    store_values_singly<true>(parameters->dtype, place.address, place.valid, &stored);
}

KERNEL(decode, decode, 4)
{
    const uint32_t codec = parameters.codec, dtype = parameters.dtype;
    struct lane_values values;
    bool is_known = false;
    const auto decode_piece = [&](struct grain &first) {
        const uint8_t *header =
            (const uint8_t *)parameters.encoded + parameters.stride * first.piece;
        const struct buffer buffer = output_of(parameters, first);
        const struct parts parts = {1, 0, message_at(&parameters.format, header, first.elements)};
        if (first.number == 0)
            check_header(header, parameters.header, first.elements, first.piece, parameters.fault);
        return for_each_grain(
            first,
            [&](const struct grain &grain) {
                const struct place place = place_of(buffer, grain);
                if (codec == CSHIM_CODEC_RAW) {
                    copy_elements(buffer.bytes, raw_place(parts.first, buffer.bytes, grain), place);
                    return true;
                }
                with_format<false>(
                    codec,
                    [&](auto format) {
                        is_known = sum_parts<decltype(format), 1>(parts, grain, values);
                    });
                if (!place.is_plain || dtype == CSHIM_FLOAT64)
                    return false;
                if (__any_sync(ALL_LANES, !is_known || lane_largest(values) >= BF16_TOO_LARGE))
                    return false;
                store_plain(dtype, place.address, values);
                return true;
            });
    };
    for_each_piece(
        parameters.count, parameters.chunk, parameters.pieces, decode_piece,
        [&](const struct grain &grain) { decode_rest(&parameters, grain, is_known, values); });
}

CSHIM_DEVICE const uint8_t *part_of(const struct cshim_kernel_reduce &parameters, uint32_t rank)
{
    return (const uint8_t *)parameters.parts + parameters.stride * rank;
}

/* Adds a lane's elements one by one in float64, and multiplies the sums by the factor. Stores them
 * in the output, if there is one, or in the message, if the codec is raw. Returns them in `values`,
 * rounded to float32, for encoding. */
CSHIM_RARE void sum_doubles(const struct cshim_kernel_reduce &parameters, uint64_t first,
                            struct lane_values *values)
{
    const struct factor factor = read_factor(parameters.factor, NULL, CSHIM_FLOAT64);
    double *const output = (double *)parameters.output;
    const bool is_raw = parameters.codec == CSHIM_CODEC_RAW;
    double *const raw = (double *)((uint8_t *)parameters.reencoded + HEADER_BYTES);
    const uint64_t end = padded(parameters.count * sizeof(double)) / sizeof(double);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const uint64_t element = first + i;
        const bool is_valid = element < parameters.count;
        double sum = 0.0;
#pragma unroll 1
        for (uint32_t rank = 0; rank < parameters.ranks && is_valid; rank++) {
            const uint8_t *part = part_of(parameters, rank);
            const struct message message = message_at(&parameters.format, part, parameters.count);
            const double value =
                is_raw ? ((const double *)message.payload)[element]
                       : cshim_widen_float(value_at(&parameters.format, &message, element));
            sum = rank == 0 ? value : cshim_sum_double(sum, value);
        }
        sum = multiply_double(sum, factor);
        if (is_valid && output != NULL)
            output[element] = sum;
        if (is_raw && parameters.reencoded != NULL && element < end)
            raw[element] = sum;
        values->value[i] = cshim_narrow_double(sum);
    }
}

/* Multiplies sums. A NaN may get any payload. */
CSHIM_DEVICE void scale_sum(float factor, struct lane_values &sum)
{
    if (factor == 1.0f)
        return;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        sum.value[i] *= factor;
}

/* Checks the headers of all ranks' messages. If the result is a message, writes its header. */
CSHIM_DEVICE void begin_reduction(const struct cshim_kernel_reduce &parameters,
                                  const struct message &message)
{
#pragma unroll 1
    for (uint32_t rank = 0; rank < parameters.ranks; rank++)
        check_header(part_of(parameters, rank), parameters.header, parameters.count, rank,
                     parameters.fault);
    if (parameters.reencoded != NULL)
        begin_message(&parameters.format, message, parameters.reencoded_header, parameters.count);
}

/* Sums a lane's elements of a grain one by one, and multiplies the sums by the factor. */
CSHIM_DEVICE void sum_rest(const struct cshim_kernel_reduce &parameters, const struct grain &grain,
                           struct lane_values &sum)
{
    const struct cshim_format *const format = &parameters.format;
    struct lane_values made;
    if (parameters.dtype == CSHIM_FLOAT64) {
        sum_doubles(parameters, first_element(grain), &made);
    } else {
        sum_singly(format, message_at(format, parameters.parts, parameters.count),
                   parameters.stride, parameters.ranks, first_element(grain), valid_elements(grain),
                   &made);
        scale_sum((float)parameters.factor, made);
    }
    sum = made;
}

/* Handles a grain that the kernel's loop does not: stores its sums in the output or in a raw
 * message, or encodes them by the slow path. Computes a lane's sums first if they are not known. */
CSHIM_RARE void reduce_rest(const struct cshim_kernel_reduce *parameters, struct grain grain,
                            bool is_known, struct lane_values sum)
{
    const uint32_t codec = parameters->codec, dtype = parameters->dtype;
    const unsigned bytes = element_bytes(dtype);
    const bool is_single = parameters->ranks == 1 && parameters->factor == 1;
    const bool is_message = parameters->reencoded != NULL;
    const struct message message =
        message_at(&parameters->format, parameters->reencoded, parameters->count);
    if (!is_known)
        sum_rest(*parameters, grain, sum);
    zero_invalid(sum, valid_elements(grain));
    const uint32_t largest = finish_sum(part_codec(codec, dtype), is_single, sum);
    if (is_message && codec != CSHIM_CODEC_RAW) {
        struct lane_values values = sum;
        const struct target target = {message, grain, 0};
        encode_grain_with(&parameters->format, &target, &parameters->options, &values);
    } else if (dtype != CSHIM_FLOAT64) { /* sum_doubles has stored float64 sums */
        const struct buffer output = buffer_of(parameters->output, bytes, parameters->count);
        store_values(dtype, is_message ? raw_place(message, bytes, grain) : place_of(output, grain),
                     sum, largest);
    }
}

KERNEL(reduce, reduce, 4)
{
    struct grain grain = {0, warp_number(), parameters.count};
    const uint64_t scales =
        HEADER_BYTES + payload_bytes((unsigned)parameters.format.bits, parameters.count);
    uint8_t *const from = (uint8_t *)parameters.parts, *const to = (uint8_t *)parameters.reencoded;
    const struct parts parts = {
        parameters.ranks, parameters.stride, {from + HEADER_BYTES, from + scales}};
    const struct message message = {to + HEADER_BYTES, to + scales};
    const struct buffer output = buffer_of(to == NULL ? parameters.output : message.payload,
                                           sizeof(float), parameters.count);
    /* Numbers of leading grains whose sums the loop encodes (`encoded`) or stores as float32
     * (`stored`). */
    uint32_t encoded = 0, stored = 0;
    if (to != NULL && parameters.codec != CSHIM_CODEC_RAW)
        encoded = are_ordinary(parameters.options) ? (uint32_t)(parameters.count / CSHIM_GRAIN) : 0;
    else if (parameters.dtype == CSHIM_FLOAT32)
        stored = output.plain;
    const float factor = (float)parameters.factor;
    const uint32_t grains = grains_of(parameters.count);
    if (grain.number == 0 && grains > 0)
        begin_reduction(parameters, message);
    while (grain.number < grains) {
        struct lane_values sum;
        bool is_known = false, is_done = false;
        if (parameters.dtype != CSHIM_FLOAT64)
            with_format<true>(part_codec(parameters.codec, parameters.dtype), [&](auto format) {
                typedef decltype(format) FORMAT;
                is_done = for_each_grain(grain, [&](const struct grain &at) {
                    is_known = sum_parts<FORMAT, 4>(parts, at, sum);
                    scale_sum(factor, sum);
                    const uint32_t largest = lane_largest(sum);
                    if (at.number < encoded)
                        return FORMAT::IS_ENCODED &&
                               encode_ordinary<FORMAT>(message, at, sum, largest, is_known);
                    const bool is_special = !is_known || largest > CSHIM_INFINITY_BITS;
                    if (at.number >= stored || __any_sync(ALL_LANES, is_special))
                        return false;
                    store_plain(CSHIM_FLOAT32, place_of(output, at).address, sum);
                    return true;
                });
            });
        if (is_done)
            return;
        reduce_rest(&parameters, grain, is_known, sum);
        grain.number += warps();
    }
}

/* The algorithm cast --------------------------------------------------------------------------- */
KERNEL(largest, cast, 4)
{
    const uint32_t dtype = parameters.dtype;
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    uint32_t largest = 0;
    const struct buffer input = buffer_of(parameters.input, element_bytes(dtype), parameters.count);
    struct grain first = {0, warp_number(), parameters.count};
    for_each_grain(first, [&](const struct grain &grain) {
        struct lane_values values;
        load_values(dtype, place_of(input, grain), factor, values);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            largest = max(largest, cshim_finite_magnitude(values.value[i]));
        return true;
    });
    largest = block_largest<CSHIM_GRAIN>(largest);
    if (lane_number() == 0 && largest > 0)
        atomicMax(parameters.largest, largest);
}

/* Returns the element type of a buffer that the algorithm cast has converted. */
CSHIM_DEVICE uint32_t narrow_dtype(uint32_t codec)
{
    return codec == CSHIM_CODEC_FP16   ? CSHIM_FLOAT16
           : codec == CSHIM_CODEC_BF16 ? CSHIM_BFLOAT16
                                       : CSHIM_FLOAT32;
}

/* Returns the exponent of the power of two that the whole buffer is divided by. */
CSHIM_DEVICE int cast_exponent(const struct cshim_kernel_cast &parameters)
{
    return parameters.codec == CSHIM_CODEC_FP16
               ? cshim_cast_exponent(*parameters.largest, (int)parameters.headroom)
               : 0;
}

/* Multiplies values by 2^exponent. Finite values stay finite. */
CSHIM_DEVICE void scale_all(struct lane_values &values, int exponent)
{
    if (exponent == 0)
        return;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const float value = values.value[i], scaled = cshim_scale_by_power(value, exponent);
        const uint32_t magnitude = cshim_float_bits(value) & ~CSHIM_SIGN_BIT;
        values.value[i] = magnitude < CSHIM_INFINITY_BITS ? cshim_saturate(scaled) : value;
    }
}

KERNEL(narrow, cast, 4)
{
    const uint32_t dtype = parameters.dtype, narrow = narrow_dtype(parameters.codec);
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    const int exponent = cast_exponent(parameters);
    const struct buffer input = buffer_of(parameters.input, element_bytes(dtype), parameters.count);
    const struct buffer output =
        buffer_of(parameters.output, element_bytes(narrow), parameters.count);
    struct grain first = {0, warp_number(), parameters.count};
    for_each_grain(first, [&](const struct grain &grain) {
        struct lane_values values;
        load_values(dtype, place_of(input, grain), factor, values);
        scale_all(values, -exponent);
        store_values(narrow, place_of(output, grain), values, lane_largest(values));
        return true;
    });
}

/* Multiplies in float64 and stores the products. */
CSHIM_RARE void widen_doubles(const struct lane_values *values, int valid, struct factor factor,
                              double *output)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        output[i] = multiply_double(cshim_widen_float(values->value[i]), factor);
}

KERNEL(widen, cast, 4)
{
    const uint32_t dtype = parameters.dtype, narrow = narrow_dtype(parameters.codec);
    const struct factor one = {1.0, true}, factor = read_factor(parameters.factor, NULL, dtype);
    const int exponent = cast_exponent(parameters);
    const struct buffer input =
        buffer_of(parameters.input, element_bytes(narrow), parameters.count);
    const struct buffer output =
        buffer_of(parameters.output, element_bytes(dtype), parameters.count);
    struct grain first = {0, warp_number(), parameters.count};
    for_each_grain(first, [&](const struct grain &grain) {
        struct lane_values values;
        load_values(narrow, place_of(input, grain), one, values);
        const struct place to = place_of(output, grain);
        scale_all(values, exponent);
        if (narrow != CSHIM_FLOAT32)
            make_canonical(values);
        if (dtype == CSHIM_FLOAT64) {
            const struct lane_values copy = values;
            widen_doubles(&copy, to.valid, factor, (double *)to.address);
        } else {
            multiply_all(values, factor);
            store_values(dtype, to, values, lane_largest(values));
        }
        return true;
    });
}
