/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of the caller's buffers as the values that are encoded and summed, and back. */
#ifndef CSHIM_VALUES_CUH
#define CSHIM_VALUES_CUH

#include "kernels/convert.cuh"

/* What elements are multiplied by, in the type of the sums. */
struct factor {
    double value;
    bool is_one;
};

/* An element of a type other than float64. */
CSHIM_DEVICE float read_float(uint32_t dtype, const void *at)
{
    return dtype == CSHIM_FLOAT32   ? *(const float *)at
           : dtype == CSHIM_FLOAT16 ? cshim_fp16_decode(*(const uint16_t *)at, 0)
                                    : cshim_bf16_decode(*(const uint16_t *)at);
}

CSHIM_DEVICE struct factor read_factor(double value, const void *at, uint32_t dtype)
{
    const double read = at == NULL               ? value
                        : dtype == CSHIM_FLOAT64 ? *(const double *)at
                                                 : cshim_widen_float(read_float(dtype, at));
    return {read, read == 1.0};
}

/* A product that is NaN is the canonical NaN. */
CSHIM_DEVICE float multiply(float value, struct factor factor)
{
    return factor.is_one ? value : cshim_canonical(value * (float)factor.value);
}

CSHIM_DEVICE double multiply_double(double value, struct factor factor)
{
    /* The sum with a zero makes a NaN canonical, and changes nothing else. */
    return factor.is_one ? value : cshim_sum_double(value * factor.value, -0.0);
}

CSHIM_DEVICE void multiply_all(struct lane_values &values, struct factor factor)
{
    if (factor.is_one)
        return;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values.value[i] = multiply(values.value[i], factor);
}

CSHIM_DEVICE void make_canonical(struct lane_values &values)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values.value[i] = cshim_canonical(values.value[i]);
}

/* Makes zeros, which pad an encoding, of all but the first elements. */
CSHIM_DEVICE void zero_invalid(struct lane_values &values, int valid)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values.value[i] = i < valid ? values.value[i] : 0.0f;
}

/* Loads elements of any type, alignment and number. Those that are not valid become 0. */
CSHIM_RARE void load_values_singly(uint32_t dtype, const uint8_t *address, int valid,
                                   struct factor factor, struct lane_values *values)
{
    const unsigned bytes = element_bytes(dtype);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        const uint8_t *at = address + bytes * i;
        float value = 0.0f;
        if (i < valid && dtype == CSHIM_FLOAT64)
            value = cshim_narrow_double(multiply_double(*(const double *)at, factor));
        else if (i < valid)
            value = multiply(read_float(dtype, at), factor);
        values->value[i] = value;
    }
}

/* Loads the elements that are encoded: multiplied, and 0 where they are not valid. A NaN of a
 * 16-bit type may get any payload. */
CSHIM_DEVICE void load_values(uint32_t dtype, const struct place &place, struct factor factor,
                              struct lane_values &values)
{
    if (!place.is_plain || dtype == CSHIM_FLOAT64) {
        struct lane_values loaded;
        load_values_singly(dtype, place.address, place.valid, factor, &loaded);
        values = loaded;
        return;
    }
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
        load_units<2>(place.address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values.value[i] = cshim_bits_float(words[i]);
    } else {
        load_units<1>(place.address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i += 2) {
            const uint32_t pair = words[i / 2];
            values.value[i] = cshim_bits_float(pair << 16);
            values.value[i + 1] = cshim_bits_float(pair & 0xffff0000u);
            if (dtype == CSHIM_FLOAT16)
                floats_of_halves(pair, &values.value[i], &values.value[i + 1]);
        }
    }
    multiply_all(values, factor);
}

CSHIM_RARE void store_values_singly(uint32_t dtype, uint8_t *address, int valid,
                                    const struct lane_values *values)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++) {
        const float value = values->value[i];
        if (dtype == CSHIM_FLOAT64)
            ((double *)address)[i] = cshim_widen_float(value);
        else if (dtype == CSHIM_FLOAT32)
            ((float *)address)[i] = value;
        else
            ((uint16_t *)address)[i] =
                dtype == CSHIM_FLOAT16 ? cshim_half_from_float(value) : cshim_bf16_encode(value);
    }
}

/* Two values as elements of 16 bits. The NaN of the instruction for binary16 is not the canonical
 * one. */
CSHIM_DEVICE uint32_t elements_of(uint32_t dtype, float first, float second)
{
    if (dtype != CSHIM_FLOAT16)
        return cshim_bf16_encode(first) | (uint32_t)cshim_bf16_encode(second) << 16;
    const uint32_t pair = halves_of(first, second);
    const uint32_t low = first == first ? pair & 0xffffu : 0x7e00u;
    return low | (second == second ? pair & 0xffff0000u : 0x7e000000u);
}

/* Rounds values to elements and stores them. NaNs of float32 and float64 have to be canonical. */
CSHIM_DEVICE void store_values(uint32_t dtype, const struct place &place,
                               const struct lane_values &values)
{
    if (!place.is_plain || dtype == CSHIM_FLOAT64) {
        const struct lane_values stored = values;
        store_values_singly(dtype, place.address, place.valid, &stored);
        return;
    }
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            words[i] = cshim_float_bits(values.value[i]);
        store_units<2>(place.address, words);
    } else {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i += 2)
            words[i / 2] = elements_of(dtype, values.value[i], values.value[i + 1]);
        store_units<1>(place.address, words);
    }
}

#endif
