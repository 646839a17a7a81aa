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
    uint32_t piece, number; /* of the piece; of the grain in it */
    uint64_t elements;      /* of the piece */
};

CSHIM_DEVICE uint32_t grains_of(uint64_t elements)
{
    return (uint32_t)((elements + CSHIM_GRAIN - 1) / CSHIM_GRAIN);
}

CSHIM_DEVICE bool is_whole(const struct grain &grain)
{
    return grain.number < (uint32_t)(grain.elements / CSHIM_GRAIN);
}

/* The grain's elements: 256 but at the end of a piece. */
CSHIM_DEVICE unsigned grain_elements(const struct grain &grain)
{
    return is_whole(grain) ? CSHIM_GRAIN : (unsigned)(grain.elements % CSHIM_GRAIN);
}

/* The number of the lane's first element in the piece. */
CSHIM_DEVICE uint64_t first_element(const struct grain &grain)
{
    return (uint64_t)grain.number * CSHIM_GRAIN + LANE_ELEMENTS * lane_number();
}

/* The warp's number among all, and how many there are. */
CSHIM_DEVICE uint32_t warp_number()
{
    return blockIdx.x * (CSHIM_KERNEL_THREADS / 32) + threadIdx.x / 32;
}

CSHIM_DEVICE uint32_t warps()
{
    return gridDim.x * (CSHIM_KERNEL_THREADS / 32);
}

/* Calls a function for each grain of this warp, from the one given on, until one returns false:
 * that grain is left to the caller. A loop that calls nothing keeps what all grains need in
 * registers. All warps stride over the grains of one piece. */
template <typename FUNCTION> CSHIM_DEVICE bool for_each_grain(struct grain &grain, FUNCTION work)
{
#pragma unroll 1
    for (; grain.number < grains_of(grain.elements); grain.number += warps())
        if (!work(grain))
            return false;
    return true;
}

/* Calls a function for each piece of which this warp has grains, with the first of them, which
 * for_each_grain takes to the end or to a grain that `rest` is called for. The warps stride over
 * the grains of all pieces. */
template <typename FUNCTION, typename REST>
CSHIM_DEVICE void for_each_piece(uint64_t count, uint64_t chunk, uint32_t pieces, FUNCTION work,
                                 REST rest)
{
    const uint32_t grains = max(grains_of(chunk), 1u);
    struct grain grain = {0, warp_number(), 0};
    for (;;) {
        grain.piece += grain.number / grains;
        grain.number %= grains;
        const uint64_t first = grain.piece * chunk;
        if (grain.piece >= pieces || first >= count)
            return;
        grain.elements = count - first < chunk ? count - first : chunk;
        if (!work(grain)) {
            rest(grain);
            grain.number += warps();
        } else if (grain.number < grains) { /* only the last piece can have fewer grains */
            return;
        }
    }
}

CSHIM_DEVICE unsigned element_bytes(uint32_t dtype)
{
    return dtype == CSHIM_FLOAT64 ? 8 : dtype == CSHIM_FLOAT32 ? 4 : 2;
}

/* The lane's elements of the first ones of a grain: 0 to 8. */
CSHIM_DEVICE int valid_of(unsigned elements)
{
    const int left = (int)elements - (int)(LANE_ELEMENTS * lane_number());
    return left < 0 ? 0 : left < LANE_ELEMENTS ? left : LANE_ELEMENTS;
}

CSHIM_DEVICE int valid_elements(const struct grain &grain)
{
    return valid_of(grain_elements(grain));
}

/* A buffer that has the elements of a piece. */
struct buffer {
    uint8_t *first; /* the lane's first element of the first grain */
    unsigned bytes; /* of an element */
    uint32_t plain; /* this many grains may be accessed 16 bytes at a time */
};

CSHIM_DEVICE struct buffer buffer_of(const void *address, unsigned bytes, uint64_t elements)
{
    return {(uint8_t *)address + LANE_ELEMENTS * lane_number() * bytes, bytes,
            (uint64_t)address % 16 == 0 ? (uint32_t)(elements / CSHIM_GRAIN) : 0};
}

/* Where the lane's part of a grain lies in a buffer. */
struct place {
    uint8_t *address; /* of the lane's first element; may be past the end */
    int valid;        /* the lane's elements, 0 to 8 */
    bool is_plain;    /* the grain has 256 elements, and 16-byte accesses are right */
};

CSHIM_DEVICE struct place place_of(const struct buffer &buffer, const struct grain &grain)
{
    return {buffer.first + (uint64_t)grain.number * (CSHIM_GRAIN * buffer.bytes),
            valid_elements(grain), grain.number < buffer.plain};
}

/* Units of 16 bytes, of which each is so many after the one before. */
template <int UNITS, int STRIDE = 1>
CSHIM_DEVICE void load_units(const uint8_t *address, uint32_t *words)
{
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        const uint4 value = ((const uint4 *)address)[unit * STRIDE];
        words[4 * unit] = value.x;
        words[4 * unit + 1] = value.y;
        words[4 * unit + 2] = value.z;
        words[4 * unit + 3] = value.w;
    }
}

template <int UNITS, int STRIDE = 1>
CSHIM_DEVICE void store_units(uint8_t *address, const uint32_t *words)
{
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++)
        ((uint4 *)address)[unit * STRIDE] = make_uint4(words[4 * unit], words[4 * unit + 1],
                                                       words[4 * unit + 2], words[4 * unit + 3]);
}

/* Where in a grain the word begins that has the first of a lane's codes, eight of so many bits. */
CSHIM_DEVICE unsigned first_word(unsigned bits, unsigned lane)
{
    const unsigned at = bits * lane;
    return bits % 4 == 0 ? at : at / 4 * 4;
}

/* Where lanes share words a lane's bytes begin up to so many bytes after the beginning of a word.
 */
template <int BITS> CSHIM_DEVICE unsigned most_skipped()
{
    return BITS % 2 == 0 ? 2 : 3;
}

/* The codes of a lane from there on. A message is aligned and padded to 16 bytes, of which `left`
 * are left; one of the lane's elements at least is in it. Where lanes share words scales follow the
 * codes, so that a word that has none of the lane's codes can be read, too. */
template <int BITS>
CSHIM_DEVICE void load_message(const uint8_t *from, unsigned lane, int64_t left, uint32_t *codes)
{
    if (BITS % 4 != 0) {
        const uint32_t *const words = (const uint32_t *)from;
        const unsigned skipped = BITS * lane % 4 * 8;
        codes[0] = __funnelshift_r(words[0], words[1], skipped);
        if (BITS > 4)
            codes[(BITS - 1) / 4] = most_skipped<BITS>() + BITS > 8
                                        ? __funnelshift_r(words[1], words[2], skipped)
                                        : words[1] >> skipped;
    } else if (BITS == 4) {
        codes[0] = *(const uint32_t *)from;
    } else if (BITS == 8) {
        const uint2 value = *(const uint2 *)from;
        codes[0] = value.x;
        codes[BITS / 4 - 1] = value.y;
    } else {
#pragma unroll
        for (int unit = 0; unit < BITS / 16; unit++)
            if (unit == 0 || 16 * unit < left)
                load_units<1>(from + 16 * unit, codes + 4 * unit);
    }
}

/* Stores the lane's codes in a whole grain. Where lanes share words each stores the words, one or
 * two, that begin in its bytes, of which the next lane may have the rest: all lanes must come here.
 */
template <int BITS> CSHIM_DEVICE void store_message(uint8_t *grain, const uint32_t *codes)
{
    const unsigned at = BITS * lane_number();
    uint8_t *to = grain + at;
    if (BITS % 4 != 0) {
        const unsigned skipped = (0 - at) % 4;
        const uint64_t next = __shfl_sync(ALL_LANES, codes[0], (lane_number() + 1) % 32);
        const uint64_t own = codes[0] | (BITS > 4 ? (uint64_t)codes[(BITS - 1) / 4] << 32 : 0);
        const uint64_t both = own | next << 8 * BITS % 64;
        const uint32_t low = (uint32_t)both, high = (uint32_t)(both >> 32);
        const uint32_t after = (uint32_t)(next >> (64 - 8 * BITS) % 64);
        if (skipped < BITS)
            *(uint32_t *)(to + skipped) = __funnelshift_r(low, high, 8 * skipped);
        if (skipped + 4 < BITS)
            *(uint32_t *)(to + skipped + 4) = __funnelshift_r(high, after, 8 * skipped);
        return;
    }
    if (BITS == 4) {
        *(uint32_t *)to = codes[0];
    } else if (BITS == 8) {
        *(uint2 *)to = make_uint2(codes[0], codes[BITS / 4 - 1]);
    } else {
#pragma unroll
        for (int unit = 0; unit < BITS / 16; unit++)
            store_units<1>(to + 16 * unit, codes + 4 * unit);
    }
}

#endif
