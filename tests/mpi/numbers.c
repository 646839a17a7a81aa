/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that stress the checks of floating-point values: adaptive precision, error feedback and
 * floating-point traps. An ordinary MPI program.
 *
 *   mpi_numbers magnitude M [overflow|underflow]   float64 of magnitude M; traps on overflow (and
 *                              invalid operations and divisions by zero) or underflow
 *   mpi_numbers outliers R [N] only rank R has elements that are hard to encode, among N (20000)
 *   mpi_numbers duplicates     the same elements on two duplicates of a communicator
 *   mpi_numbers reused LIMIT   ones in memory that held larger numbers, and zeros after them
 *   mpi_numbers unused CALLS   a sum of an array, CALLS sums of a short one, a sum of a third */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define COUNT 20000

static void sum_magnitude(double magnitude, const char *trap)
{
    static double own[COUNT], sums[COUNT];
    for (int i = 0; i < COUNT; i++)
        own[i] = magnitude * (1 + i % 7);
    if (strcmp(trap, "overflow") == 0)
        feenableexcept(FE_OVERFLOW | FE_INVALID | FE_DIVBYZERO);
    if (strcmp(trap, "underflow") == 0)
        feenableexcept(FE_UNDERFLOW);
    const int traps = fegetexcept();
    for (int call = 0; call < 4; call++) /* the codec changes during the first calls */
        MPI_Allreduce(own, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(fegetexcept() == traps, "the program's traps are in force again");
    fedisableexcept(FE_ALL_EXCEPT);
    for (int i = 0; i < COUNT; i++)
        check(fabs(sums[i] / (ranks * own[i]) - 1) < 0.01, "a sum is within max_rel_error");
}

static void sum_outliers(int which, int count)
{
    static float own[COUNT], sums[COUNT];
    for (int i = 0; i < COUNT; i++)
        own[i] = rank == which ? (float)(i % 1000) * 1e-3f + (i % 64 == 0 ? 50 : 0) : 1;
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(own, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Checks that more than a quarter of the results differ between the two duplicates, and between two
 * calls on the first one. */
static void sum_duplicates(void)
{
    static float own[COUNT], sums[3][COUNT];
    MPI_Comm comms[2];
    int between[2] = {0, 0};
    for (int i = 0; i < COUNT; i++)
        own[i] = (float)(i * 2654435761u >> 8) * 0x1p-24f;
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(own, sums[i], COUNT, MPI_FLOAT, MPI_SUM, comms[i % 2]);
    for (int i = 0; i < COUNT; i++) {
        between[0] += sums[0][i] != sums[1][i];
        between[1] += sums[0][i] != sums[2][i];
    }
    check(between[0] > COUNT / 4, "random numbers differ between communicators");
    check(between[1] > COUNT / 4, "and between calls");
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comms[i]);
}

/* Sums large numbers, ones and zeros, one after the other, in one buffer: programs often get freed
 * memory for their next array. No sum of ones may be off by more than `limit`, and every sum of
 * zeros must be exact. */
static void sum_reused(double limit)
{
    static float own[COUNT], sums[COUNT];
    double worst = 0;
    for (int i = 0; i < COUNT; i++)
        own[i] = i % 32 != 0 ? (float)(300 + i % 7) : 7000;
    MPI_Allreduce(own, sums, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        own[i] = 1;
    MPI_Allreduce(own, sums, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) { /* gcc 12 for 64-bit Arm crashes on fmax here */
        const double error = fabs((double)sums[i] - ranks);
        worst = error > worst ? error : worst;
    }
    memset(own, 0, sizeof own);
    MPI_Allreduce(own, sums, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        check(sums[i] == 0, "a sum of zeros is zero");
    check(worst <= limit, "a sum of ones is within the limit");
    if (rank == 0)
        printf("sums of %d ones are off by %g at most\n", ranks, worst);
}

static void sum_unused(int calls)
{
    static float own[COUNT], few[COUNT / 20], others[COUNT], sums[COUNT];
    MPI_Allreduce(own, sums, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < calls; call++)
        MPI_Allreduce(few, sums, COUNT / 20, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(others, sums, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    if (argc > 2 && strcmp(argv[1], "magnitude") == 0)
        sum_magnitude(atof(argv[2]), argc > 3 ? argv[3] : "");
    else if (argc > 2 && strcmp(argv[1], "outliers") == 0)
        sum_outliers(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : COUNT);
    else if (argc > 2 && strcmp(argv[1], "reused") == 0)
        sum_reused(atof(argv[2]));
    else if (argc > 2 && strcmp(argv[1], "unused") == 0)
        sum_unused(atoi(argv[2]));
    else
        sum_duplicates();
    return job_end("work done, ");
}
