/* SPDX-License-Identifier: Apache-2.0 */
/* The conversions for which the hardware has instructions. They take two elements in a word, the
 * first in the lower half. They equal codecs/scalar.h for finite values whose code is finite, and
 * for codes; a NaN may get any payload. On a host they are those of scalar.h.
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

/* Two floats as binary16. Infinities are allowed, and values that are too large become infinities.
 */
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

/* Two codes, of fp16 or of a format of 8 bits, of values that are already divided by their scale.
 */
template <int ID> CSHIM_DEVICE uint32_t pair_of(float first, float second)
{
    if (ID == CSHIM_CODEC_FP16)
        return halves_of(first, second);
#if HAS_FP8
    uint16_t pair;
    if (ID == CSHIM_CODEC_FP8_E4M3)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    else
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return cshim_float_encode(cshim_format(ID), first, 0) |
           cshim_float_encode(cshim_format(ID), second, 0) << 8;
#endif
}

/* Codes 2 * i and 2 * i + 1 of such a format as binary16. An e5m2 code is the upper byte of one. An
 * e4m3 code with its magnitude one place lower is one of 1/256 of its value: where the hardware
 * does not convert e4m3, the results have to be multiplied by 2^halves_exponent. */
template <int ID> CSHIM_DEVICE uint32_t halves_of_codes(const uint32_t *codes, int i)
{
    if (ID == CSHIM_CODEC_FP16)
        return codes[i];
#if HAS_FP8
    if (ID == CSHIM_CODEC_FP8_E4M3) {
        uint32_t pair;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
            : "=r"(pair)
            : "h"((uint16_t)(codes[i / 2] >> i % 2 * 16)));
        return pair;
    }
#endif
    const uint32_t upper = __byte_perm(codes[i / 2], 0, i % 2 == 0 ? 0x1404 : 0x3424);
    return ID == CSHIM_CODEC_FP8_E4M3 ? (upper >> 1 & 0x3f803f80u) | (upper & 0x80008000u) : upper;
}

template <int ID> CSHIM_DEVICE int halves_exponent()
{
    return ID == CSHIM_CODEC_FP8_E4M3 && !HAS_FP8 ? 8 : 0;
}

/* Whether one of four codes is a NaN that halves_of_codes would take for a number. */
template <int ID> CSHIM_DEVICE bool has_hidden_nan(uint32_t codes)
{
    return ID == CSHIM_CODEC_FP8_E4M3 && !HAS_FP8 &&
           (((codes & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) != 0;
}

/* A code of less than 23 bits as the float 2^23 + code: its bits lie under those of 2^23. */
CSHIM_DEVICE float above_2_23(uint32_t code)
{
    return cshim_bits_float(code | 0x4b000000u);
}

/* Byte 0 to 3 of a word as the float 2^23 + byte, by one instruction. */
CSHIM_DEVICE float byte_above_2_23(uint32_t word, int byte)
{
    return cshim_bits_float(__byte_perm(word, 0x4b000000u, 0x7440u + (unsigned)byte));
}

#endif
