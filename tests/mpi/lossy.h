/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of lossy sums share: buffers whose length stands for a codec, the policy that says
 * so, and the sum that a result is held against.
 *
 * One job tries all codecs: the policy that lossy_print_policy prints has one rule for each codec
 * and length. */
#ifndef LOSSY_H
#define LOSSY_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "policy/policy.h"

/* Elements: within one segment; several chunks of it; several segments of every algorithm. */
enum lossy_length { LOSSY_SHORT, LOSSY_MEDIUM, LOSSY_LONG, LOSSY_LENGTHS };

static inline size_t lossy_count(enum cshim_codec_id codec, enum lossy_length length)
{
    static const size_t counts[LOSSY_LENGTHS] = {3001, 50021, 600011};
    return counts[length] + (size_t)codec;
}

static inline enum cshim_algorithm lossy_algorithm(const char *name)
{
    for (int i = 1; i < CSHIM_ALGORITHM_COUNT; i++) {
        if (strcmp(name, cshim_algorithm_name((enum cshim_algorithm)i)) == 0)
            return (enum cshim_algorithm)i;
    }
    fprintf(stderr, "there is no algorithm '%s'\n", name);
    exit(2);
}

/* Whether the test tries a codec: all that the algorithm takes. */
static inline bool lossy_has(enum cshim_codec_id codec, enum cshim_algorithm algorithm)
{
    return cshim_codec_info(codec) != NULL &&
           (algorithm != CSHIM_ALGORITHM_CAST || codec <= CSHIM_CODEC_BF16);
}

static inline void lossy_print_policy(enum cshim_algorithm algorithm)
{
    for (int codec = 1; codec < CSHIM_CODEC_COUNT; codec++) {
        const enum cshim_codec_id id = (enum cshim_codec_id)codec;
        for (int length = 0; lossy_has(id, algorithm) && length < LOSSY_LENGTHS; length++) {
            const size_t bytes = sizeof(float) * lossy_count(id, (enum lossy_length)length);
            printf("[rule %s_%d]\ndtype = float32\nop = sum\nmin_size = %zu\nmax_size = %zu\n"
                   "codec = %s\nalgorithm = %s\n",
                   cshim_codec_name(id), length, bytes, bytes, cshim_codec_name(id),
                   cshim_algorithm_name(algorithm));
        }
    }
}

/* The algorithm that the command line names; with --policy the program prints the policy and ends.
 */
static inline enum cshim_algorithm lossy_arguments(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ALGORITHM [--policy]\n", argv[0]);
        exit(2);
    }
    const enum cshim_algorithm algorithm = lossy_algorithm(argv[1]);
    if (argc > 2) {
        lossy_print_policy(algorithm);
        exit(0);
    }
    return algorithm;
}

/* Begins a stream of erand48. Streams whose states differ by multiples of one number would be
 * correlated, so the three numbers are hashed (FNV-1a, and a final mix as in MurmurHash3). */
static inline void lossy_seed(unsigned a, unsigned b, unsigned c, unsigned short state[3])
{
    const unsigned words[3] = {a, b, c};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 3; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    for (int i = 0; i < 3; i++)
        state[i] = (unsigned short)(hash >> (16 * i));
}

/* A random number, normally distributed, from a stream of erand48. */
static inline double lossy_normal(unsigned short state[3])
{
    const double radius = sqrt(-2 * log(1 - erand48(state)));
    return radius * cos(6.283185307179586 * erand48(state));
}

/* The sum of all ranks' data in float64, and how far from it each element of a result may be. */
struct lossy_reference {
    double *sum;
    double *bound;
};

/* Near the smallest subnormals an error cannot be relative; bf16's are larger than float32's. */
static inline double lossy_smallest(const struct cshim_codec_info *codec)
{
    return codec->id == CSHIM_CODEC_BF16 ? 0x1p-134 : 0x1p-145;
}

/* What one quantization may do to a value in a block whose largest magnitude is given. */
static inline double lossy_quantization(const struct cshim_codec_info *codec, double value,
                                        double largest)
{
    return codec->bound_relative * fabs(value) + codec->bound_absolute * largest +
           lossy_smallest(codec);
}

/* The largest finite |values[i]| + |more[i]| of a block; more may be NULL. */
static inline double lossy_largest(const double *values, const double *more, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        const double magnitude = fabs(values[i]) + (more != NULL ? more[i] : 0);
        if (isfinite(magnitude) && magnitude > largest)
            largest = magnitude;
    }
    return largest;
}

/* Adds to bound what quantizing `values` once may do, block by block. A NULL `more` says that the
 * values are exact; else more[i] is how much larger |values[i]| may be. */
static inline void lossy_quantize(const struct cshim_codec_info *codec, size_t block,
                                  const double *values, const double *more, size_t count,
                                  double *bound)
{
    for (size_t first = 0; first < count; first += block) {
        const size_t length = count - first < block ? count - first : block;
        const double largest =
            lossy_largest(values + first, more != NULL ? more + first : NULL, length);
        for (size_t i = first; i < first + length; i++) {
            const double magnitude = fabs(values[i]) + (more != NULL ? more[i] : 0);
            bound[i] += lossy_quantization(codec, magnitude, largest);
        }
    }
}

/* What one rank's exact values add to sum and bound. */
static inline void lossy_add_rank(const struct cshim_codec_info *codec,
                                  enum cshim_algorithm algorithm, const float *data, int ranks,
                                  size_t count, struct lossy_reference *reference)
{
    const bool cast = algorithm == CSHIM_ALGORITHM_CAST;
    struct cshim_codec_info hop = *codec;
    double *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = data[i];
        reference->sum[i] += values[i];
        reference->bound[i] += ranks * 0x1p-23 * fabs(values[i]); /* adding in float32 */
    }
    if (cast) /* one scale for all, that leaves room for the sum; 2 ranks - 1 roundings under it */
        hop.bound_absolute *= 8.0 * ranks;
    for (int i = 0; i < (cast ? ranks + 1 : 1); i++)
        lossy_quantize(&hop, cast ? count : codec->block, values, NULL, count, reference->bound);
    free(values);
}

/* data holds `ranks` buffers of `count` floats, one behind the other. The caller frees both arrays.
 *
 * Every rank's value is quantized once, and the sum once more in two_shot and hierarchical; in
 * `cast` partial sums are rounded at every hop. hierarchical may quantize a node's sum instead
 * of its ranks' values: the bound is linear, so that is within the same. */
static inline struct lossy_reference lossy_reference(const struct cshim_codec_info *codec,
                                                     enum cshim_algorithm algorithm,
                                                     const float *data, int ranks, size_t count)
{
    struct lossy_reference reference = {calloc(count, sizeof(double)),
                                        calloc(count, sizeof(double))};
    for (int rank = 0; rank < ranks; rank++)
        lossy_add_rank(codec, algorithm, data + (size_t)rank * count, ranks, count, &reference);
    if (algorithm == CSHIM_ALGORITHM_TWO_SHOT || algorithm == CSHIM_ALGORITHM_HIERARCHICAL) {
        double *once = malloc(count * sizeof *once);
        memcpy(once, reference.bound, count * sizeof *once);
        lossy_quantize(codec, codec->block, reference.sum, once, count, reference.bound);
        free(once);
    }
    return reference;
}

#endif
