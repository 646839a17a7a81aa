/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution of work, and access to memory. A warp processes one grain of 256 elements at a time,
 * and lane l the eight elements from 8 * l on. Accesses to aligned buffers of elements are 16 bytes
 * wide. Unaligned buffers, the ends of buffers and float64 elements (unless copied) are accessed
 * element by element, in functions that are not inlined, because every kernel contains them and the
 * binary has to stay small.
 *
 * Valid CUDA C++, and C++ for a host that defines __shfl_xor_sync and the other intrinsics. */
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

/* The values and the codes of a lane. Functions that are not inlined get a copy, so that the
 * compiler keeps the original in registers. */
struct lane_values {
    float value[LANE_ELEMENTS];
};

struct lane_codes {
    uint32_t word[LANE_ELEMENTS];
};

/* A grain of a piece. A piece has fewer than 2^40 elements. */
struct grain {
    uint32_t piece, number; /* number of the piece, and of the grain in the piece */
    uint64_t elements;      /* elements of the piece */
};

CSHIM_DEVICE uint32_t grains_of(uint64_t elements)
{
    return (uint32_t)((elements + CSHIM_GRAIN - 1) / CSHIM_GRAIN);
}

CSHIM_DEVICE bool is_whole(const struct grain &grain)
{
    return grain.number < (uint32_t)(grain.elements / CSHIM_GRAIN);
}

/* Returns the number of elements of a grain: 256, or fewer at the end of a piece. */
CSHIM_DEVICE unsigned grain_elements(const struct grain &grain)
{
    return is_whole(grain) ? CSHIM_GRAIN : (unsigned)(grain.elements % CSHIM_GRAIN);
}

/* Returns the index of the lane's first element in the piece. */
CSHIM_DEVICE uint64_t first_element(const struct grain &grain)
{
    return (uint64_t)grain.number * CSHIM_GRAIN + LANE_ELEMENTS * lane_number();
}

/* Returns the warp's number in the whole launch; warps() returns the number of warps. */
CSHIM_DEVICE uint32_t warp_number()
{
    return blockIdx.x * (CSHIM_KERNEL_THREADS / 32) + threadIdx.x / 32;
}

CSHIM_DEVICE uint32_t warps()
{
    return gridDim.x * (CSHIM_KERNEL_THREADS / 32);
}

/* Calls `work` for each grain of this warp, beginning with `grain`. Returns true after the last
 * one, or false as soon as `work` does; then the caller must process `grain` itself. All warps
 * stride over the grains of one piece. The loop keeps values that all grains need in registers,
 * unless it calls a function. */
template <typename FUNCTION> CSHIM_DEVICE bool for_each_grain(struct grain &grain, FUNCTION work)
{
#pragma unroll 1
    for (; grain.number < grains_of(grain.elements); grain.number += warps())
        if (!work(grain))
            return false;
    return true;
}

/* Calls `work` for each piece in which this warp has grains, with the first of these grains. `work`
 * calls for_each_grain(). If that stops at a grain, `rest` is called for this grain, then `work`
 * for the warp's next grain. The warps stride over the grains of all pieces. */
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

/* Returns how many of a grain's first `elements` elements the lane has: 0 to 8. */
CSHIM_DEVICE int valid_of(unsigned elements)
{
    const int left = (int)elements - (int)(LANE_ELEMENTS * lane_number());
    return left < 0 ? 0 : left < LANE_ELEMENTS ? left : LANE_ELEMENTS;
}

CSHIM_DEVICE int valid_elements(const struct grain &grain)
{
    return valid_of(grain_elements(grain));
}

/* A buffer with the elements of one piece. */
struct buffer {
    uint8_t *first; /* this lane's first element in the first grain */
    unsigned bytes; /* bytes per element */
    uint32_t plain; /* number of leading grains that allow 16-byte accesses */
};

CSHIM_DEVICE struct buffer buffer_of(const void *address, unsigned bytes, uint64_t elements)
{
    return {(uint8_t *)address + LANE_ELEMENTS * lane_number() * bytes, bytes,
            (uint64_t)address % 16 == 0 ? (uint32_t)(elements / CSHIM_GRAIN) : 0};
}

/* The lane's part of a grain in a buffer. */
struct place {
    uint8_t *address; /* the lane's first element; may be past the end */
    int valid;        /* number of the lane's elements, 0 to 8 */
    bool is_plain;    /* the grain has 256 elements and allows 16-byte accesses */
};

CSHIM_DEVICE struct place place_of(const struct buffer &buffer, const struct grain &grain)
{
    return {buffer.first + (uint64_t)grain.number * (CSHIM_GRAIN * buffer.bytes),
            valid_elements(grain), grain.number < buffer.plain};
}

/* Loads units of 16 bytes, STRIDE units apart. */
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

/* Returns the byte offset in a grain of the aligned word that holds the first of a lane's eight
 * codes. */
CSHIM_DEVICE unsigned first_word(unsigned bits, unsigned lane)
{
    const unsigned at = bits * lane;
    return bits % 4 == 0 ? at : at / 4 * 4;
}

/* Returns the largest byte offset of a lane's codes in its first word, for formats whose lanes
 * share words. */
template <int BITS> CSHIM_DEVICE unsigned most_skipped()
{
    return BITS % 2 == 0 ? 2 : 3;
}

/* Loads the codes of a lane, beginning at first_word. A message's codes are aligned and padded to
 * 16 bytes. `left`: number of bytes of codes from first_word on. At least one of the lane's
 * elements must be in the message. If lanes share words, a word past the codes may be read: scales
 * follow the codes in these formats. */
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

/* Stores the lane's codes of a whole grain. If lanes share words, each lane stores the words (up to
 * two) that begin in its bytes, filled up with the next lane's codes. All lanes must call it. */
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
