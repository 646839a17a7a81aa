/* SPDX-License-Identifier: Apache-2.0 */
/* The wire formats on the CPU: what a codec is, and the functions that encode, decode and reduce.
 *
 * Pure: no MPI, no CUDA, no globals but the SIMD level, which is found once. Every function here is
 * thread-safe and reentrant except cshim_simd_limit, allocates nothing, and computes under the
 * default floating-point environment (round to nearest even, no flush to zero, exceptions masked),
 * whatever the caller's environment is.
 *
 * docs/wire-format.md gives every byte. codecs/formats.def has a row for each codec, and
 * codecs/scalar.h defines each conversion once, for the CPU and the GPU.
 */
#ifndef CSHIM_CODEC_H
#define CSHIM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element types of the caller's buffer. The values travel in policies and headers: never renumber.
 */
enum cshim_dtype {
    CSHIM_FLOAT32 = 0,
    CSHIM_FLOAT64 = 1,
    CSHIM_FLOAT16 = 2,
    CSHIM_BFLOAT16 = 3,
    CSHIM_DTYPE_COUNT,
    CSHIM_DTYPE_OTHER = 255 /* integers, pairs, derived types: never compressed */
};

/* Wire formats, by the rows of formats.def. The values travel in message headers. */
enum cshim_codec_id {
    CSHIM_CODEC_NONE = 0, /* pass through: the caller's call, untouched */
#define FORMAT(ID, NAME, name) CSHIM_CODEC_##NAME = ID,
#include "codecs/formats.def"
    CSHIM_CODEC_COUNT
};

/* Instruction sets the codecs are written for, in rising order. */
enum cshim_simd { CSHIM_SIMD_SCALAR = 0, CSHIM_SIMD_AVX2 = 1, CSHIM_SIMD_AVX512 = 2 };

/* Describes a codec, for plans and explanations. */
struct cshim_codec_info {
    enum cshim_codec_id id;
    const char *name;      /* as in policy.ini; static */
    unsigned element_bits; /* payload bits per element; 0 for raw and packed ones: the dtype's */
    unsigned block;        /* elements that share one scale; 1 where there is no scale */
    unsigned scale_bytes;  /* bytes of one scale; 0 where there is none */
    /* Error of one quantization of a finite x in a block whose largest finite magnitude is a:
     * |error| <= relative * |x| + absolute * a + 2^-145, where bf16's floor is 2^-134 instead: half
     * a step of its subnormals. Twice that for stochastic rounding. See docs/wire-format.md,
     * "Error", for the derivation. */
    double bound_relative;
    double bound_absolute;
    double typical; /* measured relative L2 error of one quantization of normal data */
};

/* Returns the description of a codec, or NULL for an id that is none (CSHIM_CODEC_NONE included).
 */
const struct cshim_codec_info *cshim_codec_info(enum cshim_codec_id id);

/* Returns the policy name of a codec id, "none" included; "?" for an unknown id. */
const char *cshim_codec_name(enum cshim_codec_id id);

/* Returns "float32", "float64", "float16" or "bfloat16"; "other" otherwise. */
const char *cshim_dtype_name(enum cshim_dtype dtype);

/* Returns the bytes of one element; 0 for CSHIM_DTYPE_OTHER. */
size_t cshim_dtype_bytes(enum cshim_dtype dtype);

/* Returns true if the length of an encoding depends on the values of the elements. */
static inline bool cshim_codec_is_packed(enum cshim_codec_id id)
{
    return id == CSHIM_CODEC_LOSSLESS || id == CSHIM_CODEC_BOUNDED || id == CSHIM_CODEC_TOPK;
}

/* Returns true if a codec keeps every bit of every element. That includes bounded, which loses
 * something only where an encoding has a step. */
static inline bool cshim_codec_is_exact(enum cshim_codec_id id)
{
    return id == CSHIM_CODEC_RAW || id == CSHIM_CODEC_LOSSLESS || id == CSHIM_CODEC_BOUNDED;
}

/* Returns true if a codec can carry a dtype without making it larger: every codec carries float32
 * and float64; float16 and bfloat16 are carried by raw and lossless, by their own 16-bit codec and
 * by every codec of 8 bits or less. topk carries float32 only. */
bool cshim_codec_carries(enum cshim_codec_id id, enum cshim_dtype dtype);

/* Returns a fingerprint of the codec table (names, ids, sizes, wire version): ranks with different
 * tables never compress together. */
uint64_t cshim_codec_table_hash(void);

/* Elements per pipeline grain: every codec's block divides it, so data may be cut at its multiples
 * and the encoded parts are those of the whole. */
#define CSHIM_GRAIN 256u
/* Encoded sizes are multiples of this many bytes. */
#define CSHIM_WIRE_ALIGN 16u

/* Returns the bytes that count elements take when encoded: the payload rounded up to
 * CSHIM_WIRE_ALIGN, then the scales, rounded up again. 0 for count 0. For a packed codec it is an
 * upper bound. */
size_t cshim_encoded_bytes(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count);

/* Returns the typical fraction of cshim_encoded_bytes that data take: for lossless measured on
 * normal data, for bounded on smooth fields, for topk with 4 elements of each grain; 1 for the
 * others. */
double cshim_codec_typical_share(enum cshim_codec_id id, enum cshim_dtype dtype);

/* Returns the bytes that the count elements at `encoded` take; for a packed codec often fewer than
 * cshim_encoded_bytes. */
size_t cshim_encoded_length(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count,
                            const void *encoded);

/* Encodes count elements of dtype at input into cshim_encoded_bytes() bytes at encoded. Padding
 * bytes are written as zero, so equal input gives equal bytes. input needs the alignment of its
 * element only; encoded any. The two must not overlap. */
void cshim_encode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input, size_t count,
                  void *encoded);

/* Options of an encoding beyond rounding to the nearest code. docs/wire-format.md gives the
 * formulas of error feedback and of stochastic rounding. */
struct cshim_encoding {
    /* Error feedback: count finite floats, zeros to begin with, or NULL. Each is added to its
     * element before that is rounded, and replaced by what rounding lost; 0 where the element is
     * not finite, so that it never becomes anything else than finite. What is added is at most the
     * codec's step at the largest magnitude of the element's block (cshim_feedback_share), whatever
     * was there. The caller's; must not overlap input, output or encoded bytes. The exact
     * codecs neither read nor write it. */
    float *residual;
    /* Round up or down at random, so that the mean over many keys is the element. An element that
     * has a code of its own keeps it; non-finite elements are encoded as without this option. fp32
     * and the exact codecs ignore it. */
    bool stochastic;
    /* Chooses the random numbers: they are a pure function of this key and of the element's number,
     * the same at every SIMD level. Keys must differ from rank to rank, from step to step and from
     * call to call, or errors add up. Keys may be consecutive. */
    uint64_t key;
    /* The number of the first element in its call. With it the codes of a call are the same however
     * the call is cut at multiples of CSHIM_GRAIN. */
    uint64_t first;
    /* The codec bounded may round each element to the nearest multiple of this step, an error of at
     * most half a step. A power of two, or 0 for no loss. The other codecs ignore it. */
    float step;
    /* Finite elements of each grain that the codec topk sends, besides all that are not finite. It
     * adds residuals without a limit. Without a residual it sends all elements. */
    unsigned keep;
};

/* Does what cshim_encode does, with options; NULL for none. */
void cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                       size_t count, const struct cshim_encoding *encoding, void *encoded);

/* Decodes count elements into output, rounding to dtype where it is narrower than float32. A value
 * that is too large for float16 becomes Inf, so that a program that watches for overflow sees it;
 * one that is too large for bfloat16 becomes the largest bfloat16. NaNs come out as the positive
 * quiet NaN without payload (the exact codecs, and fp32 for float32, keep the bytes). output needs
 * the alignment of its element; encoded any. */
void cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded, size_t count,
                  void *output);

/* Decodes the encoded parts of all ranks and adds them in rank order, part 0 first, in float32
 * (float64 for dtype float64). Writes the sum, rounded once to dtype, to output and, encoded once,
 * to reencoded; either may be NULL. Works through the parts in tiles that stay in the cache.
 * ranks >= 1. output and reencoded must not overlap any part. */
void cshim_reduce(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                  unsigned ranks, size_t count, void *output, void *reencoded);

/* Adds count elements of a and b as cshim_reduce adds two parts in raw. output may be a or b. */
void cshim_add(enum cshim_dtype dtype, void *output, const void *a, const void *b, size_t count);

/* Does what cshim_reduce does, with options (NULL for none) for the encoding of reencoded: the
 * residual belongs to the sum's elements, and does not enter output. If reencoded is NULL the
 * options are not used. */
void cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                       unsigned ranks, size_t count, void *output, void *reencoded,
                       const struct cshim_encoding *encoding);

/* Returns the SIMD level in use: the best that the processor has, unless lowered. */
enum cshim_simd cshim_simd_level(void);

/* Returns "scalar", "avx2" or "avx512"; "?" for another value. */
const char *cshim_simd_name(enum cshim_simd level);

/* Lowers (or raises back, up to what the processor has) the level, for tests and benchmarks; the
 * bytes are the same at every level. Returns the level now in use. Not for use while another thread
 * encodes. */
enum cshim_simd cshim_simd_limit(enum cshim_simd level);

#endif
