/* SPDX-License-Identifier: Apache-2.0 */
/* The conversions for which the hardware has instructions, two elements in a word, the first in the
 * lower half. They equal codecs/scalar.h for what they are given: finite values whose code is
 * finite, or codes; NaNs may have any payload. On a host they are scalar.h.
 */
#ifndef CSHIM_CONVERT_CUH
#define CSHIM_CONVERT_CUH

#include "kernels/memory.cuh"

#if defined(__CUDA_ARCH__)
#define HAS_HALF_PAIRS (__CUDA_ARCH__ >= 800)
#define HAS_FP8 (__CUDA_ARCH__ >= 890)
#else
#define HAS_HALF_PAIRS 0
#define HAS_FP8 0
#endif

/* binary16, infinities and overflow to them included. */
CSHIM_DEVICE uint32_t halves_of(float first, float second)
{
#if HAS_HALF_PAIRS
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#elif defined(__CUDA_ARCH__)
    uint16_t low, high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
    return low | (uint32_t)high << 16;
#else
    return cshim_half_from_float(first) | (uint32_t)cshim_half_from_float(second) << 16;
#endif
}

CSHIM_DEVICE void floats_of_halves(uint32_t pair, float *first, float *second)
{
#if defined(__CUDA_ARCH__)
    asm("cvt.f32.f16 %0, %1;" : "=f"(*first) : "h"((uint16_t)pair));
    asm("cvt.f32.f16 %0, %1;" : "=f"(*second) : "h"((uint16_t)(pair >> 16)));
#else
    *first = cshim_fp16_decode((uint16_t)pair, 0);
    *second = cshim_fp16_decode((uint16_t)(pair >> 16), 0);
#endif
}

/* Two fp8 codes of values that are already divided by their scale. */
CSHIM_DEVICE uint32_t e4m3_pair(float first, float second)
{
#if HAS_FP8
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    const struct cshim_format format = cshim_format(CSHIM_CODEC_FP8_E4M3);
    return cshim_float_encode(format, first, 0) | cshim_float_encode(format, second, 0) << 8;
#endif
}

CSHIM_DEVICE uint32_t e5m2_pair(float first, float second)
{
#if HAS_FP8
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    const struct cshim_format format = cshim_format(CSHIM_CODEC_FP8_E5M2);
    return cshim_float_encode(format, first, 0) | cshim_float_encode(format, second, 0) << 8;
#endif
}

/* Two e4m3 codes (the lower 16 bits) as binary16. Without the instruction: a code with its
 * magnitude one place lower is a binary16 of 1/256 of its value. The results have to be multiplied
 * by 2^E4M3_HALVES_EXPONENT. */
#if HAS_FP8
#define E4M3_HALVES_EXPONENT 0
CSHIM_DEVICE uint32_t halves_of_e4m3(uint32_t codes)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)codes));
    return pair;
}
#else
#define E4M3_HALVES_EXPONENT 8
CSHIM_DEVICE uint32_t halves_of_e4m3(uint32_t codes)
{
    const uint32_t upper = __byte_perm(codes, 0, 0x1404);
    return (upper >> 1 & 0x3f803f80u) | (upper & 0x80008000u);
}
#endif

/* Whether one of four e4m3 codes is a NaN that halves_of_e4m3 would not see. */
CSHIM_DEVICE bool has_e4m3_nan(uint32_t codes)
{
    return !HAS_FP8 && (((codes & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) != 0;
}

/* A code of less than 23 bits as the float 2^23 + code: its bits lie under those of 2^23. */
CSHIM_DEVICE float above_2_23(uint32_t code)
{
    return cshim_bits_float(code | 0x4b000000u);
}

/* The same for byte 0 to 3 of a word, by one instruction. */
CSHIM_DEVICE float byte_above_2_23(uint32_t word, int byte)
{
    return cshim_bits_float(__byte_perm(word, 0x4b000000u, 0x7440u + (unsigned)byte));
}

#endif
