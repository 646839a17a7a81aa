/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of sums; a program includes it once. Has input data that every rank can
 * compute for every rank, the float64 sum, the error bound of a result by docs/wire-format.md, and
 * the comparison element by element.
 *
 * The program sets sums_codec (NULL: the library's own sum), sums_dtype and sums_steps, the
 * quantizations of a value on its way: 1 or 2; 0: one per hop, for `cast`; 3: two, and within nodes
 * the library's own sums in the buffer's type; 4: the three of a grid. With an exact codec and
 * sums_steps 1, 2 or 4, a finite result must be exactly the sum in rank order, or in a grid's
 * order, unless sums_factor is not 1. */
#ifndef SUMS_H
#define SUMS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "codecs/hash.h"
#include "policy/policy.h"

enum data { NORMAL, HEAVY, INTEGERS, ZEROS, TINY, HUGE_VALUES, CANCEL, NONFINITE, DATA_COUNT };
static const char *const data_names[] = {"normal", "heavy", "integers", "zeros",
                                         "tiny",   "huge",  "cancel",   "nonfinite"};

/* Find a codec ("none" included) and an element type by name. Return false if the name is unknown.
 */
static inline bool codec_by_name(const char *name, enum cshim_codec_id *id)
{
    for (*id = CSHIM_CODEC_NONE; *id < CSHIM_CODEC_COUNT; ++*id)
        if (strcmp(name, cshim_codec_name(*id)) == 0)
            return true;
    return false;
}

static inline bool dtype_by_name(const char *name, enum cshim_dtype *dtype)
{
    for (unsigned i = 0; i < CSHIM_DTYPE_COUNT; i++)
        if (strcmp(name, cshim_dtype_name((enum cshim_dtype)i)) == 0) {
            *dtype = (enum cshim_dtype)i;
            return true;
        }
    return false;
}

static const struct cshim_codec_info *sums_codec;
static enum cshim_codec_id sums_without; /* a codec that the library lacks, or none */
static int sums_steps;
static enum cshim_dtype sums_dtype = CSHIM_FLOAT32;
static double sums_factor = 1; /* factor of the sum: 1 / ranks for an average */
static size_t sums_first;      /* index in a rank's data of the first element to compare */
static int sums_scaled;        /* not 0: each rank's elements are multiplied by sums_scalar() */
static int sums_special = -1;  /* rank with the non-finite values of NONFINITE; -1: all ranks */
static int sums_special_kind;  /* value on the rank sums_special: 0 Inf, 1 -Inf, 2 NaN */
static double sums_error;      /* relative L2 error of the last compared result */
static int failures;
static uint64_t digest = CSHIM_HASH_EMPTY;

static inline void digest_bytes(const void *data, size_t bytes)
{
    digest = cshim_hash_bytes(digest, data, bytes);
}

/* Returns the hash of splitmix64 (Steele, Lea and Flood), from which every rank can compute any
 * element of any rank's data. */
static inline uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static inline double uniform(uint64_t key)
{
    return ((double)(mix(key) >> 11) + 0.5) * 0x1p-53;
}

static inline double draw_normal(uint64_t key)
{
    return sqrt(-2 * log(uniform(2 * key))) * cos(6.283185307179586 * uniform(2 * key + 1));
}

/* normal() returns one of DRAWN values that are drawn at the start, because a logarithm and a
 * cosine per element took most of a test's time. HEAVY draws each value, because few elements
 * dominate its error. */
#define DRAWN 16384
static double drawn[DRAWN];

__attribute__((constructor)) static void draw_values(void)
{
    for (uint64_t i = 0; i < DRAWN; i++)
        drawn[i] = draw_normal(i);
}

static inline double normal(uint64_t key)
{
    return drawn[mix(key) % DRAWN];
}

static inline double nonfinite(uint64_t kind)
{
    return kind == 0 ? INFINITY : kind == 1 ? -INFINITY : NAN;
}

/* Conversions of elements from and to the buffer's type: load() reads one, store() writes one. */
static inline float bfloat(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Converts float16 by arithmetic, to be independent of the code under test. */
static inline double half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value =
        ldexp(exponent > 0 ? mantissa + 1024 : mantissa, (exponent > 0 ? exponent : 1) - 25);
    if (exponent == 31)
        value = mantissa != 0 ? NAN : INFINITY;
    return (bits >> 15) != 0 ? -value : value;
}

/* Rounds to nearest even. Too large values become infinite. */
static inline uint16_t to_half(double value)
{
    const unsigned sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs(value);
    if (isnan(value))
        return 0x7e00;
    if (magnitude >= 65520)
        return (uint16_t)(sign | 0x7c00);
    const int exponent = magnitude >= 0x1p-14 ? ilogb(magnitude) : -14;
    const unsigned steps = (unsigned)nearbyint(ldexp(magnitude, 10 - exponent));
    return (uint16_t)(sign | (((unsigned)(exponent + 14) << 10) + steps));
}

static inline double load(const void *buffer, size_t i)
{
    switch (sums_dtype) {
    case CSHIM_FLOAT64:
        return ((const double *)buffer)[i];
    case CSHIM_FLOAT16:
        return half(((const uint16_t *)buffer)[i]);
    case CSHIM_BFLOAT16:
        return bfloat(((const uint16_t *)buffer)[i]);
    default:
        return ((const float *)buffer)[i];
    }
}

/* Rounds to bfloat16, to nearest even. NaN stays NaN. */
static inline uint16_t to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void store(void *buffer, size_t i, double value)
{
    switch (sums_dtype) {
    case CSHIM_FLOAT64:
        ((double *)buffer)[i] = value;
        break;
    case CSHIM_FLOAT16:
        ((uint16_t *)buffer)[i] = to_half(value);
        break;
    case CSHIM_BFLOAT16:
        ((uint16_t *)buffer)[i] = to_bfloat((float)value);
        break;
    default:
        ((float *)buffer)[i] = (float)value;
    }
}

/* Returns the value rounded to the buffer's type. */
static inline double rounded(double value)
{
    double place;
    store(&place, 0, value);
    return load(&place, 0);
}

/* Returns the error bound of rounding a result to a buffer's type of 16 bits; 0 for float32 and
 * float64, whose rounding is in the bound of the addition. */
static inline double narrowing(double value)
{
    if (sums_dtype == CSHIM_FLOAT16)
        return fabs(value) * 0x1p-11 + 0x1p-25;
    return sums_dtype == CSHIM_BFLOAT16 ? fabs(value) * 0x1p-8 + 0x1p-134 : 0;
}

/* Returns element i of `rank`'s data, a value of the buffer's type. */
static inline double element(enum data data, int rank, int ranks, size_t i)
{
    const uint64_t key = ((uint64_t)data << 56) ^ ((uint64_t)rank << 40) ^ i;
    double value = 0;
    switch (data) {
    case NORMAL:
    case NONFINITE:
        value = normal(key);
        break;
    case HEAVY: /* scales over three decades, with some outliers */
        value =
            draw_normal(key) * pow(10, -3 * uniform(i / 256)) * (mix(key + 7) % 1000 == 0 ? 30 : 1);
        break;
    case INTEGERS: /* their sums are exact in many codecs: see integers_are_exact */
        value = (double)(mix(key) % 5) - 2;
        break;
    case TINY:
        value = normal(key) * 1e-40;
        break;
    case HUGE_VALUES:
        value = normal(key) * 3e37 / ranks;
        break;
    case CANCEL:
        value = (rank % 2 ? -1 : 1) * normal(i / 2) + 1e-3 * normal(key);
        break;
    case ZEROS:
    case DATA_COUNT:
        break;
    }
    if (data == NONFINITE && sums_special < 0)
        value = rank == 0 && i >= 512 && i < 1024 ? NAN /* whole blocks */
                : mix(key * 3) % 97 == 0          ? nonfinite(mix(key * 5) % 3)
                                                  : value;
    else if (data == NONFINITE && sums_special == rank && mix(key * 3) % 97 == 0)
        value = nonfinite((uint64_t)sums_special_kind);
    return rounded(value);
}

/* Returns the error bound of one quantization of a value, in a block with this largest magnitude.
 */
static inline double quantization(double value, double largest)
{
    return sums_codec->bound_relative * fabs(value) + sums_codec->bound_absolute * largest +
           sums_codec->bound_floor;
}

/* Returns the factor that multiplies the elements of a rank before the addition. */
static inline double sums_scalar(int rank)
{
    return sums_scaled ? 0.75 + 0.5 * rank : 1;
}

static inline double addend(enum data data, int rank, int ranks, size_t i)
{
    const double value = element(data, rank, ranks, sums_first + i) * sums_scalar(rank);
    /* An exact codec sends elements of the buffer's own type. */
    if (sums_dtype == CSHIM_FLOAT64 || (sums_codec != NULL && cshim_codec_is_exact(sums_codec->id)))
        return rounded(value);
    return (float)value;
}

/* Returns the end of the block that begins at `first`. */
static inline size_t block_end(size_t first, size_t count)
{
    const size_t block = sums_codec != NULL ? sums_codec->block : 1;
    return first + block < count ? first + block : count;
}

struct reference {
    /* Sums in rank order; of a grid, the sums of its rows, added in the order of the rows. */
    double *sum;     /* added in float64 */
    double *ordered; /* added in float32; for float64 buffers, in float64 */
    double *bound;
};

static inline void add_rank(struct reference *reference, enum data data, int rank, int ranks,
                            size_t count)
{
    double *values = calloc(count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = addend(data, rank, ranks, i);
    for (size_t first = 0, end; first < count; first = end) {
        end = block_end(first, count);
        double largest = 0;
        for (size_t i = first; i < end; i++)
            if (isfinite(values[i]) && fabs(values[i]) > largest)
                largest = fabs(values[i]);
        for (size_t i = first; i < end; i++) {
            const double value = values[i];
            reference->sum[i] += value;
            reference->ordered[i] = sums_dtype == CSHIM_FLOAT64
                                        ? reference->ordered[i] + value
                                        : (float)reference->ordered[i] + (float)value;
            reference->bound[i] += fabs(value) * (sums_dtype == CSHIM_FLOAT64 ? 0x1p-50 : 0x1p-22);
            if (sums_steps == 3)
                reference->bound[i] += ranks * narrowing(value);
            if (sums_codec && sums_steps > 0)
                reference->bound[i] += quantization(value, largest);
            else if (sums_codec) /* cast: each hop rounds the partial sum again */
                reference->bound[i] += (ranks + 2) * (sums_codec->bound_relative * fabs(value) +
                                                      sums_codec->bound_floor);
        }
    }
    free(values);
}

static inline void add_second_step(struct reference *reference, size_t count)
{
    for (size_t first = 0, end; sums_codec && sums_steps >= 2 && first < count; first = end) {
        end = block_end(first, count);
        double largest = 0;
        for (size_t i = first; i < end; i++) {
            const double most = fabs(reference->sum[i]) + reference->bound[i];
            if (isfinite(most) && most > largest)
                largest = most;
        }
        for (size_t i = first; i < end; i++)
            reference->bound[i] +=
                quantization(fabs(reference->sum[i]) + reference->bound[i], largest);
    }
}

static inline void fail(const char *what, enum data data, size_t count, size_t i, double got,
                        double want, double bound)
{
    if (failures++ < 10)
        fprintf(stderr, "%s: %s, count %zu, element %zu: got %.9g, want %.9g, bound %.3g\n", what,
                data_names[data], count, i, got, want, bound);
}

/* Returns true if sums of INTEGERS up to 16 are exact: they need three mantissa bits and a power of
 * two as scale. */
static inline int integers_are_exact(void)
{
    return !sums_scaled && sums_factor == 1 &&
           (sums_codec == NULL || (sums_steps > 0 && sums_codec->scale_bytes != 2 &&
                                   sums_codec->bound_relative <= 0x1p-4));
}

/* Returns true if a sum of the buffer's type may be infinite although the reference is finite. */
static inline int may_overflow(double most)
{
    return sums_dtype == CSHIM_FLOAT16 && most >= 65520;
}

/* Returns true if a result is right for the sum `want`, which is not finite. Some
 * formats have no infinity, or a single code for non-finite values. */
static inline int is_special(double got, double want)
{
    const int keeps_infinity = sums_codec == NULL || sums_codec->keeps_infinity;
    return got == want || (isnan(got) && (isnan(want) || !keeps_infinity));
}

static inline void compare(const struct reference *reference, enum data data, size_t count,
                           const void *result)
{
    double errors = 0, squares = 0;
    const int exact = sums_codec != NULL && cshim_codec_is_exact(sums_codec->id) &&
                      (sums_steps == 1 || sums_steps == 2 || sums_steps == 4) && sums_factor == 1;
    for (size_t i = 0; i < count; i++) {
        const double got = load(result, i), want = reference->sum[i] * sums_factor;
        double bound = reference->bound[i] * sums_factor;
        bound += narrowing(fabs(want) + bound);
        if (isfinite(want) && may_overflow(fabs(want) + bound))
            continue;
        if (!isfinite(want) && !is_special(got, want))
            fail("not finite, but not this", data, count, i, got, want, 0);
        if (!isfinite(want))
            continue;
        errors += (got - want) * (got - want);
        squares += want * want;
        if (exact && got != rounded(reference->ordered[i]))
            fail("not the sum in rank order", data, count, i, got, reference->ordered[i], 0);
        else if (data == INTEGERS && integers_are_exact() && got != want)
            fail("small integers are not exact", data, count, i, got, want, 0);
        else if (!(fabs(got - want) <= bound))
            fail("outside the bound", data, count, i, got, want, bound);
    }
    sums_error = sqrt(errors / squares);
}

static inline struct reference reference_make(size_t count)
{
    return (struct reference){calloc(count + 1, sizeof(double)), calloc(count + 1, sizeof(double)),
                              calloc(count + 1, sizeof(double))};
}

static inline void sums_free(struct reference *reference)
{
    free(reference->sum), free(reference->ordered), free(reference->bound);
}

/* Adds the sum of ranks `first` to end - 1, a row of a grid, and its error bound. The row's sum is
 * quantized once more. */
static inline void add_row(struct reference *reference, enum data data, int first, int end,
                           int ranks, size_t count)
{
    struct reference row = reference_make(count);
    for (int rank = first; rank < end; rank++)
        add_rank(&row, data, rank, ranks, count);
    add_second_step(&row, count);
    for (size_t i = 0; i < count; i++) {
        reference->sum[i] += row.sum[i];
        reference->ordered[i] = sums_dtype == CSHIM_FLOAT64
                                    ? reference->ordered[i] + row.ordered[i]
                                    : (float)reference->ordered[i] + (float)row.ordered[i];
        reference->bound[i] += row.bound[i];
    }
    sums_free(&row);
}

/* Returns the expected result of a rank: the sums of `count` elements from sums_first on. The
 * caller frees it with sums_free. A grid of up to 15 ranks has at most three rows. */
static inline struct reference sums_reference(enum data data, int ranks, size_t count)
{
    const int rows = ranks >= 9 ? 3 : ranks >= 4 ? 2 : 1;
    struct reference reference = reference_make(count);
    for (int row = 0; row < rows && sums_steps == 4 && ranks > 3; row++)
        add_row(&reference, data, ranks * row / rows, ranks * (row + 1) / rows, ranks, count);
    for (int rank = 0; rank < ranks && (sums_steps != 4 || ranks <= 3); rank++)
        add_rank(&reference, data, rank, ranks, count);
    add_second_step(&reference, count);
    return reference;
}

/* Lengths of the calls that try all codecs in one job. The policy that print_policy writes has a
 * rule for each codec and length, so that the length of a call selects its codec. A SHORT call fits
 * into one segment. A LONG call has several segments with some codecs, algorithms and libraries. */
enum length { SHORT, MEDIUM, LONG, LENGTHS };

static inline size_t length_of(enum cshim_codec_id codec, enum length length)
{
    static const size_t counts[LENGTHS] = {3001, 50021, 300007};
    return counts[length] + (size_t)codec;
}

static inline bool takes(const char *algorithm, enum cshim_codec_id codec)
{
    return cshim_codec_info(codec) != NULL && codec != sums_without &&
           codec != CSHIM_CODEC_BOUNDED &&
           codec != CSHIM_CODEC_TOPK && /* these have tests of their own */
           (strcmp(algorithm, "cast") != 0 || codec <= CSHIM_CODEC_BF16);
}

static inline int print_policy(const char *algorithm)
{
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++)
        for (enum length length = SHORT; takes(algorithm, codec) && length < LENGTHS; length++) {
            const size_t bytes = sizeof(float) * length_of(codec, length);
            printf("[rule %s_%d]\ndtype = float32\nop = sum\nmin_size = %zu\nmax_size = %zu\n"
                   "codec = %s\nalgorithm = %s\n",
                   cshim_codec_name(codec), (int)length, bytes, bytes, cshim_codec_name(codec),
                   algorithm);
        }
    return 0;
}

/* Sums float32 by every codec that takes() selects: each type of finite data, for which rank 0
 * prints the error, and non-finite values on each rank and on all. */
static inline void try_all_codecs(const char *algorithm, int rank, int ranks,
                                  void (*run)(enum data data, size_t count, int in_place))
{
    sums_steps = strcmp(algorithm, "cast") == 0       ? 0
                 : strcmp(algorithm, "one_shot") == 0 ? 1
                 : strcmp(algorithm, "two_shot") == 0 ? 2
                 : strcmp(algorithm, "grid") == 0     ? 4
                                                      : 3;
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        if (!takes(algorithm, codec))
            continue;
        sums_codec = cshim_codec_info(codec);
        for (int data = 0; data < NONFINITE; data++) {
            run((enum data)data, length_of(codec, MEDIUM), data % 2);
            if (rank == 0)
                printf("error %s %s %.6e\n", cshim_codec_name(codec), data_names[data], sums_error);
        }
        for (sums_special = 0; sums_special < ranks; sums_special++)
            for (sums_special_kind = 0; sums_special_kind < 3; sums_special_kind++)
                run(NONFINITE, length_of(codec, SHORT), sums_special_kind == 1);
        sums_special = -1;
        run(NONFINITE, length_of(codec, MEDIUM), 0);
        run(NONFINITE, length_of(codec, LONG), 1);
    }
}

#endif
