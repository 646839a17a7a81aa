/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: the loops before and after the encoding of a tile, compiled for each SIMD level.
 * They have no branches, so that the compiler makes vector code of them. */
#include "codecs/simd.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void add(const float *input, const float *residual, size_t count, float *sum)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] = cshim_feedback_add(input[i], residual[i]);
    }
}

INLINE void keep(const float *sum, const float *decoded, size_t count, float *residual)
{
    for (size_t i = 0; i < count; i++) {
        residual[i] = cshim_feedback_rest(sum[i], decoded[i]);
    }
}

#define DEFINE_LEVEL(target, level)                                                                \
    target static void add_##level(const float *input, const float *residual, size_t count,        \
                                   float *sum)                                                     \
    {                                                                                              \
        add(input, residual, count, sum);                                                          \
    }                                                                                              \
    target static void keep_##level(const float *sum, const float *decoded, size_t count,          \
                                    float *residual)                                               \
    {                                                                                              \
        keep(sum, decoded, count, residual);                                                       \
    }

DEFINE_LEVEL(, scalar)
#if CSHIM_X86
DEFINE_LEVEL(CSHIM_AVX2, avx2)
DEFINE_LEVEL(CSHIM_AVX512, avx512)
#endif

const struct cshim_feedback cshim_feedback_kernels[CSHIM_LEVELS] = {
    {add_scalar, keep_scalar},
#if CSHIM_X86
    {add_avx2, keep_avx2},
    {add_avx512, keep_avx512},
#endif
};
