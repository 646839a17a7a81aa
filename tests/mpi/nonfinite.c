/* SPDX-License-Identifier: Apache-2.0 */
/* Inf, -Inf and NaN on each rank at random places, in sums by every codec: the result is not finite
 * exactly there, the same bits on all ranks, and within the published bound everywhere else.
 *
 *   mpi_nonfinite ALGORITHM [--policy]
 *
 * With --policy it prints the policy to run it under. */
#include <mpi.h>

#include "tests/nonfinite.h"

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
    algorithm = lossy_arguments(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    run_all();
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d failures\n", total);
    MPI_Finalize();
    return total != 0;
}
