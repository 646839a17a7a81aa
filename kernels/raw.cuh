/* SPDX-License-Identifier: Apache-2.0 */
/* The codec raw: elements as they are. */
#ifndef CSHIM_RAW_CUH
#define CSHIM_RAW_CUH

#include "kernels/message.cuh"

/* The lane's part of a message of the codec raw, and the bytes that are left there. */
CSHIM_DEVICE uint8_t *raw_place(const uint8_t *message, unsigned bytes, uint64_t first,
                                uint64_t elements, int64_t *left)
{
    const uint64_t offset = (first + LANE_ELEMENTS * lane_number()) * bytes;
    *left = (int64_t)(padded(elements * bytes) - offset);
    return (uint8_t *)message + HEADER_BYTES + offset;
}

/* Copies elements one by one, multiplied; zeros follow up to the end of the padding. */
CSHIM_RARE void encode_raw_singly(uint32_t dtype, const uint8_t *from, int valid,
                                  struct factor factor, uint8_t *to, int64_t left)
{
    const unsigned bytes = element_bytes(dtype);
#pragma unroll 1
    for (int i = 0; i < LANE_ELEMENTS && (int64_t)(bytes * i) < left; i++) {
        if (dtype == CSHIM_FLOAT64)
            ((double *)to)[i] =
                i < valid ? multiply_double(((const double *)from)[i], factor) : 0.0;
        else if (dtype == CSHIM_FLOAT32)
            ((float *)to)[i] = i < valid ? multiply(((const float *)from)[i], factor) : 0.0f;
        else if (i >= valid)
            ((uint16_t *)to)[i] = 0;
        else if (factor.is_one)
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
        else if (dtype == CSHIM_FLOAT16)
            ((uint16_t *)to)[i] = cshim_half_from_float(
                multiply(cshim_fp16_decode(((const uint16_t *)from)[i], 0), factor));
        else
            ((uint16_t *)to)[i] =
                cshim_bf16_encode(multiply(cshim_bf16_decode(((const uint16_t *)from)[i]), factor));
    }
}

CSHIM_RARE void decode_raw_singly(uint32_t dtype, const uint8_t *from, int valid, uint8_t *to)
{
#pragma unroll 1
    for (int i = 0; i < valid; i++) {
        if (dtype == CSHIM_FLOAT64)
            ((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
        else if (dtype == CSHIM_FLOAT32)
            ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
        else
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
    }
}

/* A lane's eight aligned elements. */
CSHIM_DEVICE void copy_plain(unsigned bytes, const uint8_t *from, uint8_t *to)
{
    uint32_t words[2 * LANE_ELEMENTS];
    if (bytes == 2) {
        load_units<1>(from, words);
        store_units<1>(to, words);
    } else if (bytes == 4) {
        load_units<2>(from, words);
        store_units<2>(to, words);
    } else {
        load_units<4>(from, words);
        store_units<4>(to, words);
    }
}

CSHIM_DEVICE void encode_raw_grain(uint32_t dtype, const struct place *from, struct factor factor,
                                   const struct target *target)
{
    const unsigned bytes = element_bytes(dtype);
    int64_t left;
    uint8_t *to = raw_place(target->message, bytes, target->first, target->elements, &left);
    if (from->is_plain && factor.is_one)
        copy_plain(bytes, from->address, to);
    else
        encode_raw_singly(dtype, from->address, from->valid, factor, to, left);
}

CSHIM_DEVICE void decode_raw_grain(uint32_t dtype, const uint8_t *message, uint64_t first,
                                   uint64_t elements, const struct place *to)
{
    const unsigned bytes = element_bytes(dtype);
    int64_t left;
    const uint8_t *from = raw_place(message, bytes, first, elements, &left);
    if (to->is_plain)
        copy_plain(bytes, from, to->address);
    else
        decode_raw_singly(dtype, from, to->valid, to->address);
}

#endif
