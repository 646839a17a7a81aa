/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the instruction set that the loops use. */
#include <stdatomic.h>

#include "codecs/loops.h"

/* Level in use plus one; 0 before the first query. Concurrent first queries store the same value.
 */
static atomic_int level_plus_one;

/* Highest level that this build uses. `make SIMD=avx2` lowers it, so that the tests run as on a
 * processor without AVX-512. */
#ifndef CSHIM_SIMD_BUILT
#define CSHIM_SIMD_BUILT CSHIM_SIMD_AVX512
#endif

/* Returns the highest level of this processor. The builtin also checks that the operating system
 * saves the wide registers. It is not asked for F16C, which the AVX2 loops use too: not every
 * clang's builtin knows it, and every processor with AVX2 has it. */
static enum cshim_simd processor_level(void)
{
#if CSHIM_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return CSHIM_SIMD_SCALAR;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return CSHIM_SIMD_AVX512;
    return CSHIM_SIMD_AVX2;
#else
    return CSHIM_SIMD_SCALAR;
#endif
}

static enum cshim_simd best_level(void)
{
    const enum cshim_simd built = CSHIM_SIMD_BUILT, level = processor_level();
    return level < built ? level : built;
}

enum cshim_simd cshim_simd_level(void)
{
    int level = atomic_load_explicit(&level_plus_one, memory_order_relaxed);
    if (level == 0) {
        level = (int)best_level() + 1;
        atomic_store_explicit(&level_plus_one, level, memory_order_relaxed);
    }
    return (enum cshim_simd)(level - 1);
}

const char *cshim_simd_name(enum cshim_simd level)
{
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "?";
}

enum cshim_simd cshim_simd_limit(enum cshim_simd level)
{
    enum cshim_simd best = best_level();
    enum cshim_simd chosen = level < best ? level : best;
    atomic_store_explicit(&level_plus_one, (int)chosen + 1, memory_order_relaxed);
    return chosen;
}

const struct cshim_level *cshim_level(void)
{
#if CSHIM_X86
    const enum cshim_simd level = cshim_simd_level();
    return level == CSHIM_SIMD_AVX512 ? &cshim_level_avx512
           : level == CSHIM_SIMD_AVX2 ? &cshim_level_avx2
                                      : &cshim_level_scalar;
#else
    return &cshim_level_scalar;
#endif
}
