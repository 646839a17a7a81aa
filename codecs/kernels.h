/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the loops that each format offers, one set per SIMD level. */
#ifndef CSHIM_KERNELS_H
#define CSHIM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

#if defined(__x86_64__)
#define CSHIM_X86 1
#define CSHIM_LEVELS 3
#else
#define CSHIM_X86 0
#define CSHIM_LEVELS 1
#endif

/* Loops over float32 that start at a block's first element. payload and scales need no alignment;
 * formats without scales ignore theirs. No padding is written. */
struct cshim_kernels {
    void (*encode)(const float *input, size_t count, uint8_t *payload, uint8_t *scales);
    void (*decode)(const uint8_t *payload, const uint8_t *scales, size_t count, float *output);
    /* sum[i] = sum[i] + decoded value, any NaN made the canonical one */
    void (*add)(const uint8_t *payload, const uint8_t *scales, size_t count, float *sum);
};

/* Indexed by enum cshim_simd. */
extern const struct cshim_kernels cshim_fp32_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_fp16_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_bf16_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_e4m3_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_e5m2_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_int8_kernels[CSHIM_LEVELS];
extern const struct cshim_kernels cshim_int4_kernels[CSHIM_LEVELS];

/* Rounds count floats to IEEE binary16; what is too large becomes Inf. Indexed likewise. */
typedef void cshim_half_narrow(const float *input, size_t count, uint8_t *output);
extern cshim_half_narrow *const cshim_half_narrow_kernels[CSHIM_LEVELS];

/* Encodes like the encode of struct cshim_kernels, but rounds at random with random[i], whose bits
 * are uniformly distributed. Indexed by enum cshim_codec_id and enum cshim_simd; NULL for the
 * codecs that do not round float32. */
typedef void cshim_random_encode(const float *input, const uint32_t *random, size_t count,
                                 uint8_t *payload, uint8_t *scales);
extern cshim_random_encode *const cshim_random_kernels[CSHIM_CODEC_COUNT][CSHIM_LEVELS];

/* Fills random[0] to random[count - 1] (there must be room for one more behind them) with the
 * numbers of elements first, first + 1, ... of the key's sequence. Returns where the first is:
 * random or random + 1. Indexed by enum cshim_simd. */
typedef const uint32_t *cshim_random_fill(uint64_t key, uint64_t first, size_t count,
                                          uint32_t *random);
extern cshim_random_fill *const cshim_random_fills[CSHIM_LEVELS];

/* What error feedback does before and after the encoding of count floats. */
struct cshim_feedback {
    /* sum[i] = input[i] + residual[i]; the largest float instead of Inf where input is finite */
    void (*add)(const float *input, const float *residual, size_t count, float *sum);
    /* residual[i] = sum[i] - decoded[i]; 0 where that is not finite */
    void (*keep)(const float *sum, const float *decoded, size_t count, float *residual);
};
extern const struct cshim_feedback cshim_feedback_kernels[CSHIM_LEVELS];

#endif
