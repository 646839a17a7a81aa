/* SPDX-License-Identifier: Apache-2.0 */
/* The wire formats on the CPU: describes the codecs; encodes, decodes and reduces.
 *
 * Needs neither MPI nor CUDA; its only mutable global is the SIMD level, which is detected at the
 * first use. Every function is thread-safe and reentrant except cshim_simd_limit, allocates
 * nothing, and computes under the default floating-point environment (round to nearest even, no
 * flush to zero, exceptions masked), whatever the caller's environment is.
 *
 * docs/wire-format.md gives every byte. codecs/formats.def has a row for each codec.
 * codecs/scalar.h defines the conversions of the codecs that are not packed; faster loops on the
 * CPU and the GPU give the same bits. */
#ifndef CSHIM_CODEC_H
#define CSHIM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element types of the caller's buffer. The values travel in message headers: never renumber. */
enum cshim_dtype {
    CSHIM_FLOAT32 = 0,
    CSHIM_FLOAT64 = 1,
    CSHIM_FLOAT16 = 2,
    CSHIM_BFLOAT16 = 3,
    CSHIM_DTYPE_COUNT,
    CSHIM_DTYPE_OTHER = 255 /* any other type, such as integers: never compressed */
};

/* Wire formats, by the rows of formats.def. The values travel in message headers. */
enum cshim_codec_id {
    CSHIM_CODEC_NONE = 0, /* as a rule's codec: calls are passed through */
#define FORMAT(ID, NAME, name) CSHIM_CODEC_##NAME = ID,
#include "codecs/formats.def"
    CSHIM_CODEC_COUNT
};

/* SIMD levels, in rising order; on other processors than x86-64 only the first. */
enum cshim_simd { CSHIM_SIMD_SCALAR = 0, CSHIM_SIMD_AVX2 = 1, CSHIM_SIMD_AVX512 = 2 };

/* Describes a codec, for plans and explanations. */
struct cshim_codec_info {
    enum cshim_codec_id id;
    const char *name;      /* as in policy.ini; static */
    unsigned element_bits; /* payload bits per element; 0: those of the dtype, or packed codec */
    unsigned block;        /* elements of a block (nvfp4: of a grain); 1 without scales, or topk */
    unsigned scale_bytes;  /* bytes of a block's scale (nvfp4: 16 scales); 0 if `block` is 1 */
    /* Error of one quantization of an x within float32's range, in a block whose largest finite
     * magnitude is a: |error| <= relative * |x| + absolute * a + floor. Stochastic rounding at most
     * doubles this bound. Not valid for bounded with a step. Derived in docs/wire-format.md,
     * "Error". */
    double bound_relative;
    double bound_absolute;
    double bound_floor;
    double typical;        /* measured relative L2 error of one quantization of normal data */
    bool keeps_infinity;   /* false: infinities become NaN */
    bool keeps_minus_zero; /* false: -0 becomes 0; true for bounded, although with a step it may
                              turn -0 into 0 */
};

/* Returns the description of a codec, or NULL for CSHIM_CODEC_NONE and unknown ids. */
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

/* Returns true if a codec keeps every bit of every element. Also true of bounded, which loses bits
 * only if the encoding has a step (struct cshim_encoding). */
static inline bool cshim_codec_is_exact(enum cshim_codec_id id)
{
    return id == CSHIM_CODEC_RAW || id == CSHIM_CODEC_LOSSLESS || id == CSHIM_CODEC_BOUNDED;
}

/* Returns true if a codec encodes a dtype. topk carries float32 only, every other codec float32 and
 * float64. float16 and bfloat16 are carried by raw, by lossless, by their own 16-bit codec (fp16 or
 * bf16), and by the float and integer codecs whose codes have 8 bits or less. */
bool cshim_codec_carries(enum cshim_codec_id id, enum cshim_dtype dtype);

/* Returns a fingerprint of the codec table (names, ids, sizes, wire version): ranks with different
 * fingerprints do not compress together. */
uint64_t cshim_codec_table_hash(void);

/* Elements of a grain. Every codec's block divides it, so an array that is cut at multiples of it
 * is encoded to the same codes and scales as the whole. */
#define CSHIM_GRAIN 256u
/* Encoded sizes are multiples of this many bytes. */
#define CSHIM_WIRE_ALIGN 16u

/* Returns the encoded size of `count` elements in bytes: payload and scales, each rounded up to
 * CSHIM_WIRE_ALIGN; 0 for no elements, or an unknown codec. For a packed codec this is an upper
 * bound. */
size_t cshim_encoded_bytes(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count);

/* Returns the fraction of cshim_encoded_bytes() that typical data take: normal data for lossless,
 * smooth fields for bounded, 4 elements of each grain for topk. Returns 1 for other codecs. */
double cshim_codec_typical_share(enum cshim_codec_id id, enum cshim_dtype dtype);

/* Returns the size of the `count` elements encoded at `encoded`; for a packed codec often less than
 * cshim_encoded_bytes(). */
size_t cshim_encoded_length(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count,
                            const void *encoded);

/* Encodes count elements of dtype at input into cshim_encoded_bytes() bytes at encoded. Here and
 * below the codec must carry the dtype (cshim_codec_carries). Padding bytes are written as zero, so
 * equal input gives equal bytes. input needs the alignment of its elements only; encoded needs
 * none. The two must not overlap. */
void cshim_encode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input, size_t count,
                  void *encoded);

/* Options of an encoding beyond rounding to the nearest code. docs/wire-format.md gives the
 * formulas of error feedback and of stochastic rounding. */
struct cshim_encoding {
    /* Error feedback: `count` finite floats of the caller, initially 0; or NULL. Each is added to
     * its element before rounding, and replaced by the rounding error, or by 0 if the element is
     * not finite. Except in topk, the added value is limited to the codec's step at the largest
     * magnitude of the element's block (bf16, fp32, nvfp4: of its grain), twice that with
     * stochastic rounding (cshim_feedback_share), and residuals above 16 times the limit are
     * ignored, unless the limit is subnormal. Must not overlap input, output or encoded bytes. The
     * exact codecs neither read nor write it. */
    float *residual;
    /* Stochastic rounding: rounds up or down at random, so that the mean over many keys approaches
     * the element (bf16: except above its largest number). Elements that a code represents exactly
     * with the block's scale, which may be larger than without this option, keep their value.
     * Non-finite ones are encoded as without it. fp32, topk and the exact codecs ignore it. */
    bool stochastic;
    /* Key of the random numbers, which depend only on it and on the element's index, at every SIMD
     * level. Keys must differ between ranks, types of message and calls, otherwise errors add up.
     * They may be consecutive. */
    uint64_t key;
    /* Index of the first element in its call, so that codes do not depend on how the call is cut at
     * multiples of CSHIM_GRAIN. */
    uint64_t first;
    /* Twice the largest error that the codec bounded may add to an element, from 2^-120 to 2^104,
     * or 0 for no loss. Rounds the elements of a grain to multiples of this step (of a smaller one
     * if it is no power of two), unless that is impossible or does not make the grain smaller.
     * Other codecs ignore it. */
    float step;
    /* Maximum number of finite elements of each grain that the codec topk sends, in addition to all
     * non-finite ones. Without residuals topk ignores it, and sends all elements that are not zero.
     */
    unsigned keep;
};

/* Like cshim_encode(), with options; NULL: none. */
void cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                       size_t count, const struct cshim_encoding *encoding, void *encoded);

/* Decodes count elements into output, rounding to dtype where it is narrower than float32. Values
 * too large for float16 become Inf, because programs check for overflow; values too large for
 * bfloat16 become the largest bfloat16. NaNs become the positive quiet NaN without payload (the
 * exact codecs keep their sign and payload; fp32 keeps the sign and the payload that a float32 can
 * hold). output needs the alignment of its elements; encoded needs none. */
void cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded, size_t count,
                  void *output);

/* Decodes the encoded parts of all ranks and adds them in rank order, part 0 first, in float32
 * (float64 for dtype float64). Writes the sum, rounded once to dtype, to output and, encoded once,
 * to reencoded; either may be NULL. Processes the parts in tiles that fit the cache. ranks >= 1.
 * output and reencoded must not overlap any part; in raw output may be one of the parts, except for
 * float32 without reencoded. */
void cshim_reduce(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                  unsigned ranks, size_t count, void *output, void *reencoded);

/* Adds `count` elements of `a` and `b`, with the result of cshim_reduce() of two parts in raw.
 * `output` may be `a` or `b`. */
void cshim_add(enum cshim_dtype dtype, void *output, const void *a, const void *b, size_t count);

/* Like cshim_reduce(), with options (NULL: none) for encoding `reencoded`. The residual is that of
 * the sum, and does not affect `output`. The options are not used if `reencoded` is NULL. */
void cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                       unsigned ranks, size_t count, void *output, void *reencoded,
                       const struct cshim_encoding *encoding);

/* Returns the SIMD level in use: the highest of this build that the processor has, unless
 * cshim_simd_limit() has lowered it. */
enum cshim_simd cshim_simd_level(void);

/* Returns "scalar", "avx2" or "avx512"; "?" for another value. */
const char *cshim_simd_name(enum cshim_simd level);

/* Sets the SIMD level, or the highest possible one if that is lower, for tests and benchmarks.
 * Encoded bytes are the same at every level. Returns the level now in use. Must not be called while
 * another thread encodes, decodes or reduces. */
enum cshim_simd cshim_simd_limit(enum cshim_simd level);

#endif
