/* SPDX-License-Identifier: Apache-2.0 */
/* Makes all-reduces of several sizes, types, operations and communicators, of which some are
 * compressed and others passed through. Their results are the same small integers with every codec
 * and algorithm of the tests that run it. An ordinary MPI program. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

static void sum_floats(MPI_Comm comm, int count, const char *what)
{
    float *data = malloc((size_t)count * sizeof *data + 1);
    check(sum_ones(data, count, comm) == 0, what);
    free(data);
}

static void call_others(void)
{
    int number = 1, sum = 0;
    double wide[3] = {1, 2, 3}, wide_sum[3] = {0};
    float values[2] = {(float)rank, 1}, most[2];
    MPI_Datatype pair;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == ranks, "MPI_INT");
    MPI_Allreduce(wide, wide_sum, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(wide_sum[2] == 3.0 * ranks, "MPI_DOUBLE");
    MPI_Allreduce(values, most, 2, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    check(most[0] == (float)(ranks - 1), "MPI_MAX");
    MPI_Allreduce(values, most, 2, MPI_FLOAT, MPI_PROD, MPI_COMM_WORLD);
    MPI_Type_contiguous(1, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op band;
    MPI_Op_create((MPI_User_function *)(void (*)(void))abort, 1, &band);
    MPI_Allreduce(MPI_IN_PLACE, NULL, 0, pair, band, MPI_COMM_SELF);
    MPI_Op_free(&band);
    MPI_Type_free(&pair);
}

/* Makes an all-reduce between the two halves of MPI_COMM_WORLD: each rank gets the other half's
 * sum. */
static void call_intercommunicator(void)
{
    const int half = ranks / 2, upper = rank >= half;
    static float values[20000], sums[20000];
    MPI_Comm local, inter;
    if (ranks < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, upper ? 0 : half, 1, &inter);
    values[19999] = 1;
    MPI_Allreduce(values, sums, 20000, MPI_FLOAT, MPI_SUM, inter);
    check(sums[19999] == (float)(upper ? half : ranks - half), "intercommunicator");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    sum_floats(MPI_COMM_WORLD, 0, "no elements");
    sum_floats(MPI_COMM_WORLD, 100, "small");
    for (int i = 0; i < 3; i++)
        sum_floats(MPI_COMM_WORLD, 100000, "medium");
    for (int i = 0; i < 2; i++)
        sum_floats(MPI_COMM_WORLD, 1000000, "large");
    sum_floats(MPI_COMM_SELF, 100000, "one rank");
    call_others();
    call_intercommunicator();
    return job_end("work done, ");
}
