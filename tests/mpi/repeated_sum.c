/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the same buffer CALLS times. Prints the relative distance of the results' mean from the
 * exact sum, and one digest of all results. An ordinary MPI program.
 *
 *   mpi_repeated_sum CALLS [COUNT] */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "codecs/hash.h"
#include "tests/mpi/job.h"

static float element(int owner, size_t i)
{
    uint64_t value = ((uint64_t)owner << 32) + i * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((int64_t)value >> 40) * 0x1p-23f;
}

/* Returns the relative L2 distance of totals / calls from the sum over the ranks. */
static double distance(const double *totals, int calls, size_t count)
{
    double errors = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int owner = 0; owner < ranks; owner++)
            sum += (double)element(owner, i);
        const double error = totals[i] / calls - sum;
        errors += error * error;
        squares += sum * sum;
    }
    return sqrt(errors / squares);
}

int main(int argc, char **argv)
{
    uint64_t digest = CSHIM_HASH_EMPTY;
    job_begin(&argc, &argv);
    const int calls = argc > 1 ? atoi(argv[1]) : 1;
    const size_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 50000;
    float *input = malloc(count * sizeof *input), *result = malloc(count * sizeof *result);
    double *totals = calloc(count, sizeof *totals);
    if (input == NULL || result == NULL || totals == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    for (size_t i = 0; i < count; i++)
        input[i] = element(rank, i);
    for (int call = 0; call < calls; call++) {
        MPI_Allreduce(input, result, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (size_t i = 0; i < count; i++)
            totals[i] += (double)result[i];
        digest = cshim_hash_bytes(digest, result, count * sizeof *result);
    }
    if (rank == 0)
        printf("distance %.3e digest %016llx\n", distance(totals, calls, count),
               (unsigned long long)digest);
    free(totals);
    free(result);
    free(input);
    MPI_Finalize();
    return 0;
}
