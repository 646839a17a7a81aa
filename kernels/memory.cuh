/* SPDX-License-Identifier: Apache-2.0 */
/* How work is shared out, and access to memory. A warp treats a grain of 256 elements at a time;
 * lane l has the eight neighbours from 8 l on. Memory is accessed 16 bytes at a time where it is
 * aligned. Buffers that are not, and their ends, are accessed element by element in functions that
 * are not inlined: every kernel has them, and all kernels together have to be small.
 *
 * Valid CUDA C++, and C++ where something else gives __shfl_xor_sync and its like a meaning.
 */
#ifndef CSHIM_MEMORY_CUH
#define CSHIM_MEMORY_CUH

#include "codecs/scalar.h"
#include "kernels/kernels.h"

#define CSHIM_DEVICE static __device__ __forceinline__
#define CSHIM_RARE static __device__ __noinline__

#define LANE_ELEMENTS 8
#define ALL_LANES 0xffffffffu

CSHIM_DEVICE unsigned lane_number()
{
    return threadIdx.x % 32;
}

/* A lane's elements, and their codes. Functions that are not inlined take copies, so that only
 * these lie in memory. */
struct lane_values {
    float value[LANE_ELEMENTS];
};

struct lane_codes {
    uint32_t word[LANE_ELEMENTS];
};

/* A grain of a piece, which has less than 2^40 elements. */
struct grain {
    uint32_t piece;
    uint64_t first;    /* the grain's first element in the piece */
    uint64_t elements; /* of the piece */
};

/* Calls a function for each grain of this warp. The warps of all blocks stride over the grains of
 * all pieces. */
template <typename FUNCTION>
CSHIM_DEVICE void for_each_grain(uint64_t count, uint64_t chunk, uint32_t pieces, FUNCTION work)
{
    const uint32_t warp = blockIdx.x * (CSHIM_KERNEL_THREADS / 32) + threadIdx.x / 32;
    const uint32_t warps = gridDim.x * (CSHIM_KERNEL_THREADS / 32);
    const uint32_t grains = chunk > 0 ? (uint32_t)((chunk - 1) / CSHIM_GRAIN) + 1 : 1;
    const uint32_t next_pieces = warps / grains, next_grains = warps % grains;
    uint32_t piece = warp / grains, number = warp % grains;
    while (piece < pieces) {
        const uint64_t begin = piece * chunk, left = count > begin ? count - begin : 0;
        const struct grain grain = {piece, (uint64_t)number * CSHIM_GRAIN,
                                    left < chunk ? left : chunk};
        if (grain.first < grain.elements)
            work(grain);
        piece += next_pieces;
        number += next_grains;
        if (number >= grains) {
            number -= grains;
            piece++;
        }
    }
}

CSHIM_DEVICE unsigned element_bytes(uint32_t dtype)
{
    return dtype == CSHIM_FLOAT64 ? 8 : dtype == CSHIM_FLOAT32 ? 4 : 2;
}

/* Where the lane's part of a grain lies in a buffer. */
struct place {
    uint8_t *address; /* of the lane's first element; may be past the end */
    int valid;        /* the lane's elements, 0 to 8 */
    bool is_plain;    /* the grain has 256 elements, and 16-byte accesses are right */
};

/* The lane's elements of a grain: 0 to 8. */
CSHIM_DEVICE int valid_elements(struct grain grain)
{
    const uint64_t first = grain.first + LANE_ELEMENTS * lane_number();
    const uint64_t left = grain.elements > first ? grain.elements - first : 0;
    return left < LANE_ELEMENTS ? (int)left : LANE_ELEMENTS;
}

/* The place in a buffer that has the piece's elements. */
CSHIM_DEVICE struct place place_of(const void *buffer, unsigned bytes, struct grain grain)
{
    uint8_t *address = (uint8_t *)buffer + (grain.first + LANE_ELEMENTS * lane_number()) * bytes;
    return {address, valid_elements(grain),
            grain.elements >= grain.first + CSHIM_GRAIN && (uint64_t)address % 16 == 0};
}

template <int UNITS> CSHIM_DEVICE void load_units(const uint8_t *address, uint32_t *words)
{
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        const uint4 value = ((const uint4 *)address)[unit];
        words[4 * unit] = value.x;
        words[4 * unit + 1] = value.y;
        words[4 * unit + 2] = value.z;
        words[4 * unit + 3] = value.w;
    }
}

template <int UNITS> CSHIM_DEVICE void store_units(uint8_t *address, const uint32_t *words)
{
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++)
        ((uint4 *)address)[unit] = make_uint4(words[4 * unit], words[4 * unit + 1],
                                              words[4 * unit + 2], words[4 * unit + 3]);
}

/* Where the word begins that has the first of the lane's codes, eight of BITS bits, of a grain. */
template <int BITS> CSHIM_DEVICE const uint8_t *first_word(const uint8_t *grain)
{
    const unsigned at = BITS * lane_number();
    return grain + (BITS % 4 == 0 ? at : at / 4 * 4);
}

/* The lane's codes from there on. A message is aligned and padded to 16 bytes, of which `left` are
 * left; one of the lane's elements at least is in the message. */
template <int BITS>
CSHIM_DEVICE void load_message(const uint8_t *from, int64_t left, uint32_t *codes)
{
    if (BITS % 4 != 0) {
        /* The lane's bytes begin anywhere in the word, and end in that or one of the next two. */
        const unsigned skipped = BITS * lane_number() % 4;
        uint32_t words[3] = {0, 0, 0};
#pragma unroll
        for (unsigned i = 0; i < 3; i++) {
            if (4 * i < left && 4 * i < skipped + BITS)
                words[i] = ((const uint32_t *)from)[i];
        }
        codes[0] = __funnelshift_r(words[0], words[1], skipped * 8);
        if (BITS > 4)
            codes[(BITS - 1) / 4] = __funnelshift_r(words[1], words[2], skipped * 8);
    } else if (BITS == 4) {
        codes[0] = *(const uint32_t *)from;
    } else if (BITS == 8) {
        const uint2 value = *(const uint2 *)from;
        codes[0] = value.x;
        codes[BITS / 4 - 1] = value.y;
    } else {
#pragma unroll
        for (int unit = 0; unit < BITS / 16; unit++) {
            if (unit == 0 || 16 * unit < left)
                load_units<1>(from + 16 * unit, codes + 4 * unit);
        }
    }
}

/* Stores the lane's codes in the same places. Where lanes share words one lane puts each word
 * together from the codes of two: all lanes must come here. */
template <int BITS>
CSHIM_DEVICE void store_message(uint8_t *grain, int64_t bytes, const uint32_t *codes)
{
    const unsigned at = BITS * lane_number();
    uint8_t *to = grain + at;
    if (BITS % 4 != 0) {
#pragma unroll
        for (unsigned first = 0; first < 8 * BITS; first += 32) {
            const unsigned word = first + lane_number(), lane = 4 * word / BITS;
            const unsigned skipped = 8 * (4 * word - BITS * lane);
            uint64_t own = 0, next = 0;
#pragma unroll
            for (int i = 0; i < (BITS + 3) / 4; i++) {
                own |= (uint64_t)__shfl_sync(ALL_LANES, codes[i], lane % 32) << 32 * i;
                next |= (uint64_t)__shfl_sync(ALL_LANES, codes[i], (lane + 1) % 32) << 32 * i;
            }
            if (word < 8 * BITS && 4 * word < bytes)
                ((uint32_t *)grain)[word] =
                    (uint32_t)(own >> skipped | next << (8 * BITS - skipped));
        }
        return;
    }
    if (at >= bytes)
        return;
    if (BITS == 4) {
        *(uint32_t *)to = codes[0];
    } else if (BITS == 8) {
        *(uint2 *)to = make_uint2(codes[0], codes[BITS / 4 - 1]);
    } else {
#pragma unroll
        for (int unit = 0; unit < BITS / 16; unit++) {
            if (at + 16 * unit < bytes)
                store_units<1>(to + 16 * unit, codes + 4 * unit);
        }
    }
}

#endif
