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

/* Loops of one format over arrays of float32, whose first element begins a block (with E4M3 scales,
 * a grain). Payload and scales need no alignment. Codes of less than 8 bits must be followed by 16
 * readable bytes, such as the scales: the loops may read past the codes. The loops write no
 * padding. In formats without scales they ignore `scales`. */
struct cshim_loops {
    /* Encodes, rounding to nearest. */
    void (*encode)(const float *input, size_t count, uint8_t *payload, uint8_t *scales);
    /* Decodes; NaNs become canonical, except those of fp32. */
    void (*decode)(const uint8_t *payload, const uint8_t *scales, size_t count, float *output);
    /* Adds the decoded values to `sum`; NaNs become canonical. */
    void (*add)(const uint8_t *payload, const uint8_t *scales, size_t count, float *sum);
    /* Decodes two arrays and writes their sum, in one pass. */
    void (*add_two)(const uint8_t *first, const uint8_t *first_scales, const uint8_t *second,
                    const uint8_t *second_scales, size_t count, float *sum);
    /* Subtracts from each encoded sum (input plus residual) its decoded value: the difference is
     * the next residual of error feedback, 0 if it is not finite. */
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
    /* Adds inputs, the first of which begins a block, to their residuals of error feedback. Clamps
     * a residual to `share` of the largest finite magnitude of its block's inputs, and ignores it
     * above 16 times that (cshim_feedback_add). The sum is finite if the input is. */
    void (*add_residual)(const float *input, size_t count, size_t block, float share,
                         float *residual);
    /* Packs up to CSHIM_GRAIN elements: by the codec bounded if `step` is above 0 and bounded makes
     * them smaller, otherwise by lossless. Returns the packed size, which is at most that of the
     * elements. */
    size_t (*pack_grain)(enum cshim_dtype dtype, float step, const uint8_t *input, size_t count,
                         uint8_t *output);
    /* Unpacks a grain of either codec from `bytes` bytes. If the header or `bytes` is invalid, all
     * elements become NaN. */
    void (*unpack_grain)(enum cshim_dtype dtype, const uint8_t *input, size_t bytes, size_t count,
                         uint8_t *output);
};

/* Rounds a number of bytes up to a multiple of CSHIM_WIRE_ALIGN. */
static inline size_t cshim_align(size_t bytes)
{
    return (bytes + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
}

/* Arrays of packed grains (lossless.c). */

/* Returns the bytes of the table before the grains of an array of `count` elements: the packed
 * length of the array, and that of each grain. */
static inline size_t cshim_packed_table(size_t count)
{
    return sizeof(uint32_t) + (count + CSHIM_GRAIN - 1) / CSHIM_GRAIN * sizeof(uint16_t);
}

/* Packs a tile of an array by a packed codec: the elements [begin, begin + length) of `count`.
 * `input` points to element `begin`, `packed` to the beginning of the whole packed array. The
 * caller packs the tiles in order; all but the last consist of whole grains. `encoding` has the
 * options of the array, or is NULL. */
void cshim_pack_tile(enum cshim_codec_id id, enum cshim_dtype dtype,
                     const struct cshim_encoding *encoding, const uint8_t *input, size_t begin,
                     size_t length, size_t count, uint8_t *packed);
/* Returns the offset in a packed array of the grain that begins with element `begin`, by adding up
 * the lengths of all grains before it. */
size_t cshim_packed_offset(const uint8_t *packed, size_t begin, size_t count);
/* Unpacks the elements [begin, begin + length) of a packed array of `count`. Their first grain
 * begins at `offset`. Returns the offset of the byte after their last grain. */
size_t cshim_unpack_tile(enum cshim_codec_id id, enum cshim_dtype dtype, const uint8_t *packed,
                         size_t offset, size_t begin, size_t length, size_t count, uint8_t *output);

/* Grains of topk: up to CSHIM_GRAIN elements of float32 (topk.c; cshim_topk_bytes() is in codec.c).
 */

/* Returns the size of a grain of which `kept` elements are sent. Different numbers of elements have
 * different sizes. */
size_t cshim_topk_bytes(size_t kept);
/* Packs a grain and returns its size. Without a residual (NULL) sends all elements except zeros.
 * Otherwise adds the residual to the finite elements; sends the sums of largest magnitude, at most
 * `keep` and no zeros, and all elements that are not finite; and replaces the residual by the
 * difference between the sums and their decoded values, by 0 for elements that are not finite. */
size_t cshim_topk_pack(const float *input, size_t count, unsigned keep, float *residual,
                       uint8_t *output);
/* Unpacks a grain of `bytes` bytes. If these are invalid, all elements become NaN. */
void cshim_topk_unpack(const uint8_t *input, size_t bytes, size_t count, float *output);

extern const struct cshim_level cshim_level_scalar;
#if CSHIM_X86
extern const struct cshim_level cshim_level_avx2, cshim_level_avx512;
#endif

/* Returns the loops of the SIMD level in use (cshim_simd_level). */
const struct cshim_level *cshim_level(void);

#endif
