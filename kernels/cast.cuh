/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm cast: the largest magnitude, narrowing and widening. A narrowed buffer has elements
 * of another type, without a header: float32, bfloat16, or float16 divided by one power of two. */
#ifndef CSHIM_CAST_CUH
#define CSHIM_CAST_CUH

#include "kernels/formats.cuh"

CSHIM_DEVICE void find_buffer_largest(const struct cshim_kernel_cast &parameters)
{
    const uint32_t dtype = parameters.dtype;
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    uint32_t largest = 0;
    for_each_grain(parameters.count, parameters.count, 1, [&](struct grain grain) {
        struct lane_values values;
        load_values(dtype, place_of(parameters.input, element_bytes(dtype), grain), factor, values);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            largest = max(largest, cshim_finite_magnitude(values.value[i]));
    });
    largest = block_largest<CSHIM_GRAIN>(largest);
    if (lane_number() == 0 && largest > 0)
        atomicMax(parameters.largest, largest);
}

/* The type of a narrowed buffer's elements. */
CSHIM_DEVICE uint32_t narrow_dtype(uint32_t codec)
{
    return codec == CSHIM_CODEC_FP16   ? CSHIM_FLOAT16
           : codec == CSHIM_CODEC_BF16 ? CSHIM_BFLOAT16
                                       : CSHIM_FLOAT32;
}

/* The exponent of the power of two that a whole buffer is divided by. */
CSHIM_DEVICE int cast_exponent(const struct cshim_kernel_cast &parameters)
{
    return parameters.codec == CSHIM_CODEC_FP16
               ? cshim_cast_exponent(*parameters.largest, (int)parameters.headroom)
               : 0;
}

/* Multiplies values by 2^exponent; those that are finite stay so. */
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

CSHIM_DEVICE void narrow_buffer(const struct cshim_kernel_cast &parameters)
{
    const uint32_t dtype = parameters.dtype, narrow = narrow_dtype(parameters.codec);
    const struct factor factor = read_factor(parameters.factor, parameters.factor_at, dtype);
    const int exponent = cast_exponent(parameters);
    for_each_grain(parameters.count, parameters.count, 1, [&](struct grain grain) {
        struct lane_values values;
        load_values(dtype, place_of(parameters.input, element_bytes(dtype), grain), factor, values);
        scale_all(values, -exponent);
        store_values(narrow, place_of(parameters.output, element_bytes(narrow), grain), values);
    });
}

/* Multiplies in float64 and stores. */
CSHIM_RARE void widen_doubles(const struct lane_values *values, int valid, struct factor factor,
                              double *output)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++)
        output[i] = multiply_double(cshim_widen_float(values->value[i]), factor);
}

CSHIM_DEVICE void widen_buffer(const struct cshim_kernel_cast &parameters)
{
    const uint32_t dtype = parameters.dtype, narrow = narrow_dtype(parameters.codec);
    const struct factor one = {1.0, true}, factor = read_factor(parameters.factor, NULL, dtype);
    const int exponent = cast_exponent(parameters);
    for_each_grain(parameters.count, parameters.count, 1, [&](struct grain grain) {
        struct lane_values values;
        load_values(narrow, place_of(parameters.input, element_bytes(narrow), grain), one, values);
        const struct place to = place_of(parameters.output, element_bytes(dtype), grain);
        scale_all(values, exponent);
        if (narrow != CSHIM_FLOAT32)
            make_canonical(values);
        if (dtype == CSHIM_FLOAT64) {
            const struct lane_values copy = values;
            widen_doubles(&copy, to.valid, factor, (double *)to.address);
        } else {
            multiply_all(values, factor);
            store_values(dtype, to, values);
        }
    });
}

#endif
