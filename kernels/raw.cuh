/* SPDX-License-Identifier: Apache-2.0 */
/* The codec raw: a message has the elements as they are. */
#ifndef CSHIM_RAW_CUH
#define CSHIM_RAW_CUH

#include "kernels/message.cuh"

/* Where the lane's part of a grain lies in a message of the codec raw; the elements that pad the
 * message are valid there. */
CSHIM_DEVICE struct place raw_place(const uint8_t *message, unsigned bytes, struct grain grain)
{
    const uint64_t offset = (grain.first + LANE_ELEMENTS * lane_number()) * bytes;
    const int64_t left = (int64_t)(padded(grain.elements * bytes) - offset);
    const int64_t room = left > 0 ? left / bytes : 0;
    return {(uint8_t *)message + HEADER_BYTES + offset,
            room < LANE_ELEMENTS ? (int)room : LANE_ELEMENTS,
            grain.elements >= grain.first + CSHIM_GRAIN};
}

/* Copies elements one by one, `valid` of them; zeros follow up to the place's end. */
CSHIM_RARE void copy_singly(unsigned bytes, const uint8_t *from, int valid, uint8_t *to, int end)
{
#pragma unroll 1
    for (int i = 0; i < end; i++) {
        if (bytes == 8)
            ((uint64_t *)to)[i] = i < valid ? ((const uint64_t *)from)[i] : 0;
        else if (bytes == 4)
            ((uint32_t *)to)[i] = i < valid ? ((const uint32_t *)from)[i] : 0;
        else
            ((uint16_t *)to)[i] = i < valid ? ((const uint16_t *)from)[i] : 0;
    }
}

/* Copies a lane's elements; both places have to be plain for whole words. */
CSHIM_DEVICE void copy_elements(unsigned bytes, const struct place &from, const struct place &to)
{
    uint32_t words[2 * LANE_ELEMENTS];
    if (!from.is_plain || !to.is_plain) {
        copy_singly(bytes, from.address, from.valid, to.address, to.valid);
    } else if (bytes == 2) {
        load_units<1>(from.address, words);
        store_units<1>(to.address, words);
    } else if (bytes == 4) {
        load_units<2>(from.address, words);
        store_units<2>(to.address, words);
    } else {
        load_units<4>(from.address, words);
        store_units<4>(to.address, words);
    }
}

CSHIM_RARE void multiply_doubles(const double *from, int valid, struct factor factor, double *to,
                                 int end)
{
#pragma unroll 1
    for (int i = 0; i < end; i++)
        to[i] = i < valid ? multiply_double(from[i], factor) : 0.0;
}

CSHIM_DEVICE void encode_raw_grain(uint32_t dtype, const struct place &from, struct factor factor,
                                   const struct place &to)
{
    if (factor.is_one) {
        copy_elements(element_bytes(dtype), from, to);
    } else if (dtype == CSHIM_FLOAT64) {
        multiply_doubles((const double *)from.address, from.valid, factor, (double *)to.address,
                         to.valid);
    } else {
        struct lane_values values;
        load_values(dtype, from, factor, values);
        store_values(dtype, to, values);
    }
}

#endif
