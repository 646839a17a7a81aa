/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of Inf, -Inf and NaN share, for a program that includes it once and defines run():
 * one sum of this rank's data of a placing, held against the reference. */
#ifndef NONFINITE_H
#define NONFINITE_H

#include "tests/mpi/lossy.h"

enum kind { INF, MINUS_INF, A_NAN, KINDS };
static const float special[KINDS] = {INFINITY, -INFINITY, NAN};

/* Where a call puts what. */
struct placing {
    int rank; /* that has it; -1: all ranks, all kinds */
    enum kind kind;
};

static int rank, ranks, failures;
static enum cshim_algorithm algorithm;

/* Normal data; about one element in 100 is special where the placing says so. Rank 0 has two whole
 * blocks of NaN in the calls with all kinds. */
static void make_data(const struct placing *placing, enum cshim_codec_id codec, float *data,
                      size_t count)
{
    unsigned short state[3];
    lossy_seed((unsigned)rank, (unsigned)placing->rank, 16 * (unsigned)codec + placing->kind,
               state);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)lossy_normal(state);
        if (nrand48(state) % 100 != 0)
            continue;
        if (placing->rank == rank)
            data[i] = special[placing->kind];
        else if (placing->rank < 0)
            data[i] = special[nrand48(state) % KINDS];
    }
    for (size_t i = 512; i < 1024 && placing->rank < 0 && rank == 0; i++)
        data[i] = NAN;
}

/* fp8_e4m3 has no infinity, and the integer formats have one code for all that is not finite. */
static bool keeps_infinity(enum cshim_codec_id codec)
{
    return codec != CSHIM_CODEC_FP8_E4M3 && cshim_codec_info(codec)->scale_bytes != 2;
}

static bool is_right(double want, double bound, float got, enum cshim_codec_id codec)
{
    if (isnan(want) || (isinf(want) && !keeps_infinity(codec)))
        return isnan(got);
    if (isinf(want))
        return (double)got == want;
    return isfinite(got) && fabs((double)got - want) <= bound;
}

static void complain(const struct placing *placing, enum cshim_codec_id codec, size_t i,
                     const char *what, double got, double want, double bound)
{
    if (failures++ < 10)
        fprintf(stderr,
                "rank %d: %s by %s: %s, special values %d on rank %d, element %zu: got %.9g, "
                "want %.9g, bound %.3g\n",
                rank, cshim_codec_name(codec), cshim_algorithm_name(algorithm), what,
                (int)placing->kind, placing->rank, i, got, want, bound);
}

static uint32_t bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static void run(struct placing placing, enum cshim_codec_id codec, enum lossy_length length);

/* Every codec that the algorithm takes, special values on each rank, and on all. */
static inline void run_all(void)
{
    for (int codec = 1; codec < CSHIM_CODEC_COUNT; codec++) {
        const enum cshim_codec_id id = (enum cshim_codec_id)codec;
        if (!lossy_has(id, algorithm))
            continue;
        for (int from = 0; from < ranks; from++) {
            for (int kind = 0; kind < KINDS; kind++)
                run((struct placing){from, (enum kind)kind}, id, LOSSY_SHORT);
        }
        run((struct placing){-1, INF}, id, LOSSY_MEDIUM);
        run((struct placing){-1, MINUS_INF}, id, LOSSY_LONG);
    }
}

#endif
