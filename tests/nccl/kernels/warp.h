/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA C++ on a host, as far as the kernels need it: each lane of a warp is a fiber, and the
 * functions whose names end in _sync, and __syncwarp, are barriers of the lanes. Blocks and warps
 * run one after the other. This shows what the kernels compute, and that all lanes reach barriers
 * of the same name. It does not show the order of memory accesses, nor the hardware's conversions,
 * which are not compiled here. */
#ifndef TESTS_NCCL_KERNELS_WARP_H
#define TESTS_NCCL_KERNELS_WARP_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(threads, blocks)
#define __grid_constant__

struct dim {
    unsigned x;
};
struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

enum { WARP_LANES = 32, WARP_STACK = 1 << 16 };

extern struct dim threadIdx, blockIdx, gridDim;

/* Value that each lane passes to a barrier, and the name of the barrier. */
extern uint32_t warp_values[WARP_LANES];
extern const char *warp_places[WARP_LANES];
extern unsigned warp_lane;
void warp_meet(const char *place);

/* Launches a kernel with `blocks` blocks of 256 threads, and runs the first `run` of them. */
void warp_launch(void (*kernel)(const void *), const void *parameters, unsigned blocks,
                 unsigned run);

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static inline uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
static inline uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)high << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= (uint32_t)(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}
static inline uint32_t __viaddmax_u32(uint32_t first, uint32_t second, uint32_t third)
{
    const uint32_t sum = first + second;
    return sum > third ? sum : third;
}
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline int __ffs(int value)
{
    return __builtin_ffs(value);
}
static inline uint32_t exchange(uint32_t value, unsigned from, const char *place)
{
    warp_values[warp_lane] = value;
    warp_meet(place);
    const uint32_t got = warp_values[from];
    warp_meet(place);
    return got;
}
static inline uint32_t __shfl_xor_sync(uint32_t, uint32_t value, int distance)
{
    return exchange(value, warp_lane ^ (unsigned)distance, "shfl_xor");
}
static inline uint32_t __shfl_sync(uint32_t, uint32_t value, int from)
{
    return exchange(value, (unsigned)from, "shfl");
}
static inline bool __any_sync(uint32_t, bool value)
{
    warp_values[warp_lane] = value;
    warp_meet("any");
    bool any = false;
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        any = any || warp_values[lane] != 0;
    warp_meet("any");
    return any;
}
static inline void __syncwarp()
{
    warp_meet("syncwarp");
}
static inline void __threadfence_system()
{
}
static inline uint32_t atomicCAS(uint32_t *at, uint32_t expected, uint32_t value)
{
    const uint32_t before = *at;
    if (before == expected)
        *at = value;
    return before;
}
static inline uint32_t atomicMax(uint32_t *at, uint32_t value)
{
    const uint32_t before = *at;
    *at = max(before, value);
    return before;
}

#endif
