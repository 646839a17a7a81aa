/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how much of an exchange overlaps with computation. Sums COUNT floats by MPI_Iallreduce,
 * and computes meanwhile for as long as the sum takes alone, in slices with an MPI_Test after each.
 * Rank 0 prints a timeline of the last round. Of the best round it prints how much of the shorter
 * of the two (sum and computation) overlapped with the longer one: 1 is all of it, 0 nothing. An
 * ordinary MPI program.
 *
 *   mpi_overlap COUNT [ROUNDS] */
#include <mpi.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

#define SLICE 0.0005 /* seconds */

static volatile double sink;

static void compute(double seconds)
{
    const double until = MPI_Wtime() + seconds;
    double x = 1;
    while (MPI_Wtime() < until)
        for (int i = 0; i < 1000; i++)
            x = x * 1.0000001 + 1e-9;
    sink = x;
}

/* Returns the maximum over all ranks. */
static double slowest(double seconds)
{
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static double sum_alone(float *in, float *out, int count)
{
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return slowest(MPI_Wtime() - began);
}

struct times {
    double posted, computed, ended, all;
};

/* Computes in slices for `seconds` while the sum runs. Returns the times, since the start, at which
 * the call was posted, the computation ended, the sum completed (as seen by MPI_Test, else by the
 * MPI_Wait at the end), and all had ended. */
static struct times sum_beside(float *in, float *out, int count, double seconds)
{
    MPI_Request request;
    int flag = 0;
    struct times times = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    times.posted = MPI_Wtime() - began;
    for (const double until = began + seconds; MPI_Wtime() < until;) {
        compute(SLICE);
        if (!flag) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            times.ended = flag ? MPI_Wtime() - began : 0;
        }
    }
    times.computed = MPI_Wtime() - began;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    times.all = MPI_Wtime() - began;
    if (!flag)
        times.ended = times.all;
    return times;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    job_begin(&argc, &argv);
    const int count = argc > 1 ? atoi(argv[1]) : 1 << 20, rounds = argc > 2 ? atoi(argv[2]) : 3;
    float *in = malloc((size_t)count * sizeof *in), *out = calloc((size_t)count, sizeof *out);
    double alone = 0, best = 0, best_all = 0;
    struct times times = {0};
    for (int i = 0; i < count; i++)
        in[i] = 1;
    sum_alone(in, out, count);
    for (int round = 0; round < rounds; round++) {
        alone = sum_alone(in, out, count);
        times = sum_beside(in, out, count, alone);
        const double all = slowest(times.all), computing = slowest(times.computed - times.posted);
        const double hidden = (alone + computing - all) / (alone < computing ? alone : computing);
        if (hidden > best) {
            best = hidden;
            best_all = all;
        }
        for (int i = 0; i < count; i++)
            wrong += out[i] != (float)ranks;
    }
    if (rank == 0) {
        printf("timeline: posted %.2f ms, sum done %.2f ms, computed %.2f ms, all done %.2f ms\n",
               1e3 * times.posted, 1e3 * times.ended, 1e3 * times.computed, 1e3 * times.all);
        printf("alone %.2f ms, with as much computing %.2f ms, hidden %.2f, %d wrong\n",
               1e3 * alone, 1e3 * best_all, best, wrong);
    }
    free(in), free(out);
    MPI_Finalize();
    return wrong != 0;
}
