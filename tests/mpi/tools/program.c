/* SPDX-License-Identifier: Apache-2.0 */
/* Makes blocking, nonblocking and persistent calls under a PMPI tool, and checks the results. An
 * ordinary MPI program.
 *
 *   program [CALLS]     makes all calls CALLS (2) times */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#if OMPI_MAJOR_VERSION < 5
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#endif

enum { ELEMENTS = 20000 };
static int rank, ranks, wrong;
static float in[ELEMENTS], out[ELEMENTS], other[ELEMENTS];

/* Fills in the rank, counted from 1, plus fractions, most of which no lossy codec represents. */
static void fill_values(float *values, int count)
{
    for (int i = 0; i < count; i++)
        values[i] = (float)(rank + 1) + (float)(i % 97) / 971;
}

/* Counts the results that are off by more than a tenth. */
static void check_sums(const char *what, const float *sums, int first, int count)
{
    int bad = 0;
    for (int i = 0; i < count; i++) {
        const double sum =
            ranks * (ranks + 1) / 2.0 + ranks * (double)(float)((first + i) % 97) / 971;
        bad += !(fabs(sums[i] - sum) <= 0.1 * sum);
    }
    if (bad > 0)
        printf("rank %d: %d of %d sums of %s are wrong\n", rank, bad, count, what);
    wrong += bad;
}

static void call_blocking(void)
{
    const int block = ELEMENTS / ranks, root = ranks - 1;
    int ints[2] = {rank, 1}, int_sums[2] = {0, 0};
    MPI_Allreduce(in, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sums("MPI_Allreduce", out, 0, ELEMENTS);
    fill_values(out, ELEMENTS);
    MPI_Allreduce(MPI_IN_PLACE, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sums("MPI_Allreduce in place", out, 0, ELEMENTS);
    MPI_Reduce(in, rank == root ? out : NULL, ELEMENTS, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
    if (rank == root)
        check_sums("MPI_Reduce", out, 0, ELEMENTS);
    MPI_Reduce_scatter_block(in, other, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sums("MPI_Reduce_scatter_block", other, rank * block, block);
    MPI_Allreduce(ints, int_sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += int_sums[1] != ranks;
}

/* Makes calls that are compressed only if a rule names them, and calls that never are. */
static void call_others(void)
{
    const int block = ELEMENTS / ranks;
    int own = 1, before = 0;
    fill_values(out, ELEMENTS);
    MPI_Bcast(out, ELEMENTS, MPI_FLOAT, 0, MPI_COMM_WORLD);
    wrong += !(fabsf(out[0] - 1.0f) < 0.1f);
    MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, MPI_COMM_WORLD);
    wrong += !(fabsf(out[(ranks - 1) * block] - (float)ranks) < 0.1f * (float)ranks);
    MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, MPI_COMM_WORLD);
    wrong += !(fabsf(out[0] - 1.0f) < 0.2f);
    MPI_Scan(&own, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += before != rank + 1;
    MPI_Gather(in, 10, MPI_FLOAT, out, 10, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
}

static void call_nonblocking(void)
{
    MPI_Request requests[2];
    int done = 0;
    MPI_Iallreduce(in, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(in, other, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check_sums("MPI_Iallreduce", out, 0, ELEMENTS);
    check_sums("MPI_Iallreduce", other, 0, ELEMENTS);
    MPI_Iallreduce(in, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    check_sums("MPI_Iallreduce", out, 0, ELEMENTS);
}

static void call_persistent(void)
{
    MPI_Request requests[2];
    MPI_Allreduce_init(in, out, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[0]);
    MPI_Allreduce_init(in, other, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[1]);
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    check_sums("MPI_Start", out, 0, ELEMENTS);
    fill_values(out, ELEMENTS);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check_sums("MPI_Startall", out, 0, ELEMENTS);
    check_sums("MPI_Startall", other, 0, ELEMENTS);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv)
{
    const int calls = argc > 1 ? atoi(argv[1]) : 2;
    int all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    fill_values(in, ELEMENTS);
    for (int i = 0; i < calls; i++) {
        call_blocking();
        call_others();
        call_nonblocking();
        call_persistent();
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("program: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
