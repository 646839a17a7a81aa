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

CSHIM_DEVICE double read_element(uint32_t dtype, const void *at)
{
    switch (dtype) {
    case CSHIM_FLOAT32:
        return cshim_widen_float(*(const float *)at);
    case CSHIM_FLOAT64:
        return *(const double *)at;
    case CSHIM_FLOAT16:
        return cshim_widen_float(cshim_fp16_decode(*(const uint16_t *)at, 0));
    default:
        return cshim_widen_float(cshim_bf16_decode(*(const uint16_t *)at));
    }
}

CSHIM_DEVICE struct factor read_factor(double value, const void *at, uint32_t dtype)
{
    const double read = at == NULL ? value : read_element(dtype, at);
    return {read, read == 1.0};
}

/* Any NaN that comes out is the canonical one. */
CSHIM_DEVICE float multiply(float value, struct factor factor)
{
    return factor.is_one ? value : cshim_canonical(value * (float)factor.value);
}

CSHIM_DEVICE double multiply_double(double value, struct factor factor)
{
    /* A sum with a zero that has no effect but to make a NaN canonical. */
    return factor.is_one ? value : cshim_sum_double(value * factor.value, -0.0);
}

CSHIM_DEVICE void multiply_all(float *values, struct factor factor)
{
    if (factor.is_one)
        return;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values[i] = multiply(values[i], factor);
}

CSHIM_DEVICE void make_canonical(float *values)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values[i] = cshim_canonical(values[i]);
}

/* What pads an encoding. */
CSHIM_DEVICE void zero_invalid(float *values, int valid)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++)
        values[i] = i < valid ? values[i] : 0.0f;
}

struct lane_values {
    float value[LANE_ELEMENTS];
};

/* Any dtype, alignment and number of elements. What is not valid becomes 0. */
CSHIM_RARE void load_values_singly(uint32_t dtype, const uint8_t *address, int valid,
                                   struct factor factor, struct lane_values *values)
{
    const unsigned bytes = element_bytes(dtype);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        float value = 0.0f;
        if (i < valid && dtype == CSHIM_FLOAT64)
            value =
                cshim_narrow_double(multiply_double(*(const double *)(address + 8 * i), factor));
        else if (i < valid && dtype == CSHIM_FLOAT32)
            value = multiply(*(const float *)(address + 4 * i), factor);
        else if (i < valid)
            value = multiply((float)read_element(dtype, address + bytes * i), factor);
        values->value[i] = value;
    }
}

/* Elements as what is encoded: multiplied, and 0 from the first that is not valid on. NaNs of
 * 16-bit types may have any payload. */
CSHIM_DEVICE void load_values(uint32_t dtype, const struct place *place, struct factor factor,
                              float *values)
{
    if (!place->is_plain || dtype == CSHIM_FLOAT64) {
        struct lane_values loaded;
        load_values_singly(dtype, place->address, place->valid, factor, &loaded);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values[i] = loaded.value[i];
        return;
    }
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
        load_units<2>(place->address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            values[i] = cshim_bits_float(words[i]);
    } else {
        load_units<1>(place->address, words);
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS / 2; i++) {
            values[2 * i] = cshim_bits_float(words[i] << 16);
            values[2 * i + 1] = cshim_bits_float(words[i] & 0xffff0000u);
            if (dtype == CSHIM_FLOAT16)
                floats_of_halves(words[i], &values[2 * i], &values[2 * i + 1]);
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

/* Two values as binary16. The instruction's NaN is another than ours. */
CSHIM_DEVICE uint32_t canonical_halves(float first, float second)
{
    const uint32_t pair = halves_of(first, second);
    const uint32_t low = first == first ? pair & 0xffffu : 0x7e00u;
    return low | (second == second ? pair & 0xffff0000u : 0x7e000000u);
}

/* Values as 16-bit elements. */
CSHIM_DEVICE void halves_of_values(uint32_t dtype, const float *values, uint32_t *words)
{
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS / 2; i++) {
        if (dtype == CSHIM_FLOAT16)
            words[i] = canonical_halves(values[2 * i], values[2 * i + 1]);
        else
            words[i] = cshim_bf16_encode(values[2 * i]) |
                       (uint32_t)cshim_bf16_encode(values[2 * i + 1]) << 16;
    }
}

/* Rounds values, with NaNs canonical, to elements. */
CSHIM_DEVICE void store_values(uint32_t dtype, const struct place *place, const float *values)
{
    if (!place->is_plain || dtype == CSHIM_FLOAT64) {
        struct lane_values stored;
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            stored.value[i] = values[i];
        store_values_singly(dtype, place->address, place->valid, &stored);
        return;
    }
    uint32_t words[LANE_ELEMENTS];
    if (dtype == CSHIM_FLOAT32) {
#pragma unroll
        for (int i = 0; i < LANE_ELEMENTS; i++)
            words[i] = cshim_float_bits(values[i]);
        store_units<2>(place->address, words);
    } else {
        halves_of_values(dtype, values, words);
        store_units<1>(place->address, words);
    }
}

#endif
