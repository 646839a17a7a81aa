/* SPDX-License-Identifier: Apache-2.0 */
/* Inf, -Inf and NaN on each rank at random places, in sums by every codec: the result is not finite
 * exactly there, the same bits on all ranks, and within the published bound everywhere else.
 *
 *   mpi_nonfinite ALGORITHM [--policy]
 *
 * With --policy it prints the policy to run it under. */
#include <mpi.h>

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
    return codec <= CSHIM_CODEC_BF16 || codec == CSHIM_CODEC_FP8_E5M2;
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

static void compare_ranks(const struct placing *placing, enum cshim_codec_id codec,
                          const float *result, size_t count)
{
    float *first = malloc(count * sizeof *first);
    memcpy(first, result, count * sizeof *first);
    MPI_Bcast(first, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (size_t i = 0; i < count; i++) {
        if (bits(first[i]) != bits(result[i]))
            complain(placing, codec, i, "not the bits of rank 0", result[i], first[i], 0);
    }
    free(first);
}

/* Rank 0 holds its result against the sum of all ranks' data, the others theirs against its. */
static void compare_sum(const struct placing *placing, enum cshim_codec_id codec, const float *own,
                        const float *result, size_t count)
{
    float *all = malloc(count * sizeof *all * (size_t)ranks);
    MPI_Gather(own, (int)count, MPI_FLOAT, all, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        const struct lossy_reference reference =
            lossy_reference(cshim_codec_info(codec), algorithm, all, ranks, count);
        for (size_t i = 0; i < count; i++) {
            if (!is_right(reference.sum[i], reference.bound[i], result[i], codec))
                complain(placing, codec, i, "wrong", result[i], reference.sum[i],
                         reference.bound[i]);
        }
        free(reference.sum), free(reference.bound);
    }
    free(all);
}

static void run(struct placing placing, enum cshim_codec_id codec, enum lossy_length length)
{
    const size_t count = lossy_count(codec, length);
    float *own = malloc(count * sizeof *own), *result = malloc(count * sizeof *result);
    make_data(&placing, codec, own, count);
    const bool in_place = placing.kind == MINUS_INF;
    if (in_place)
        memcpy(result, own, count * sizeof *own);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : own, result, (int)count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    compare_sum(&placing, codec, own, result, count);
    compare_ranks(&placing, codec, result, count);
    free(own), free(result);
}

int main(int argc, char **argv)
{
    int total = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: mpi_nonfinite ALGORITHM [--policy]\n");
        return 2;
    }
    algorithm = lossy_algorithm(argv[1]);
    if (argc > 2) {
        lossy_print_policy(algorithm);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
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
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d failures\n", total);
    MPI_Finalize();
    return total != 0;
}
