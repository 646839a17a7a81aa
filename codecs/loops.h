/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to codecs/: the loops of each format at each SIMD level. */
#ifndef CSHIM_LOOPS_H
#define CSHIM_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

#if defined(__x86_64__)
#define CSHIM_X86 1
#else
#define CSHIM_X86 0
#endif

/* Loops over float32 that start at a block's first element. Payload and scales need no alignment,
 * but must be in one message, payload first: up to 16 bytes after the codes may be read. Formats
 * without scales ignore theirs. No padding is written. */
struct cshim_loops {
    void (*encode)(const float *input, size_t count, uint8_t *payload, uint8_t *scales);
    void (*decode)(const uint8_t *payload, const uint8_t *scales, size_t count, float *output);
    /* sum[i] = sum[i] + decoded value; NaNs become canonical */
    void (*add)(const uint8_t *payload, const uint8_t *scales, size_t count, float *sum);
    /* Decodes both arrays and stores their sum, in one pass. */
    void (*add_two)(const uint8_t *first, const uint8_t *first_scales, const uint8_t *second,
                    const uint8_t *second_scales, size_t count, float *sum);
    /* Error feedback after encoding a sum: sum[i] = sum[i] - decoded value; 0 if that is not
     * finite. */
    void (*rest)(const uint8_t *payload, const uint8_t *scales, size_t count, float *sum);
    /* Encodes with stochastic rounding; the bits of random[i] are uniformly distributed. */
    void (*encode_random)(const float *input, const uint32_t *random, size_t count,
                          uint8_t *payload, uint8_t *scales);
};

/* All functions that are compiled for one SIMD level. */
struct cshim_level {
    struct cshim_loops codecs[CSHIM_CODEC_COUNT]; /* unused for raw and packed codecs */
    /* Rounds `count` floats to IEEE binary16; values that are too large become Inf. */
    void (*narrow_half)(const float *input, size_t count, uint8_t *output);
    /* Fills `random`, which has room for count + 2 numbers, with the random numbers of elements
     * first, first + 1, ... Returns the address of the first one: random or random + 1. */
    const uint32_t *(*fill_random)(uint64_t key, uint64_t first, size_t count, uint32_t *random);
    /* Error feedback before encoding `count` floats, which begin with a block: residual[i] =
     * input[i] + residual[i]. Residuals are clamped to `share` of the largest finite input of the
     * block, and ignored above 16 times that. If input[i] is finite, the result is, too. */
    void (*add_residual)(const float *input, size_t count, size_t block, float share,
                         float *residual);
    /* Pack and unpack up to CSHIM_GRAIN elements by the codecs lossless and (step > 0) bounded.
     * pack_grain returns the packed size, which is at most that of the elements. Invalid bytes are
     * unpacked to NaNs. */
    size_t (*pack_grain)(enum cshim_dtype dtype, float step, const uint8_t *input, size_t count,
                         uint8_t *output);
    void (*unpack_grain)(enum cshim_dtype dtype, const uint8_t *input, size_t bytes, size_t count,
                         uint8_t *output);
};

/* Rounds up to CSHIM_WIRE_ALIGN. */
static inline size_t cshim_align(size_t bytes)
{
    return (bytes + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
}

/* Arrays of grains, lossless.c: */

/* Returns the bytes of the table before the grains of an array of `count` elements: the array's
 * length, and the length of each grain. */
static inline size_t cshim_packed_table(size_t count)
{
    return sizeof(uint32_t) + (count + CSHIM_GRAIN - 1) / CSHIM_GRAIN * sizeof(uint16_t);
}

/* Packs the elements [begin, begin + length) of an array of `count` by a packed codec. The tiles of
 * an array come in order, and all but the last are whole grains. `encoding` is that of the array,
 * or NULL. */
void cshim_pack_tile(enum cshim_codec_id id, enum cshim_dtype dtype,
                     const struct cshim_encoding *encoding, const uint8_t *input, size_t begin,
                     size_t length, size_t count, uint8_t *packed);
/* Returns the offset in an array of the grain that begins at element `begin`: adds up the lengths
 * of all grains before. */
size_t cshim_packed_offset(const uint8_t *packed, size_t begin, size_t count);
/* Unpacks the elements [begin, begin + length), whose first grain is at `offset`. Returns the
 * offset after the last. */
size_t cshim_unpack_tile(enum cshim_codec_id id, enum cshim_dtype dtype, const uint8_t *packed,
                         size_t offset, size_t begin, size_t length, size_t count, uint8_t *output);

/* Grains of up to CSHIM_GRAIN float32, topk.c: */

/* Returns the size of a grain of which `kept` elements are sent. It is different for each number of
 * elements. Defined in codec.c. */
size_t cshim_topk_bytes(size_t kept);
/* Packs a grain and returns its size. Adds the residual, if it is not NULL, and stores in it what
 * is not sent. */
size_t cshim_topk_pack(const float *input, size_t count, unsigned keep, float *residual,
                       uint8_t *output);
/* Unpacks `bytes` bytes. Invalid bytes are unpacked to NaNs. */
void cshim_topk_unpack(const uint8_t *input, size_t bytes, size_t count, float *output);

extern const struct cshim_level cshim_level_scalar;
#if CSHIM_X86
extern const struct cshim_level cshim_level_avx2, cshim_level_avx512;
#endif

/* Returns the loops of the SIMD level in use (cshim_simd_level). */
const struct cshim_level *cshim_level(void);

#endif
