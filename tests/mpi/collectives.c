/* SPDX-License-Identifier: Apache-2.0 */
/* Calls collectives other than MPI_Allreduce. An ordinary MPI program.
 *
 *   mpi_collectives COUNT           one MPI_Reduce and one MPI_Reduce_scatter_block of COUNT floats
 *                                   on each rank, normally distributed; and other calls, which the
 *                                   tests' policies do not compress
 *   mpi_collectives mismatch WHAT   the last rank makes a shorter call; WHAT is reduce or scatter
 *   mpi_collectives wrong           calls with wrong arguments; rank 0 prints the errors returned
 */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/either_count.h"
#include "tests/mpi/job.h"

static float *make_normal(int count)
{
    float *values = malloc((size_t)count * sizeof *values);
    unsigned short seed[3] = {1, 2, (unsigned short)(rank + 3)};
    for (int i = 0; i < count; i++)
        values[i] = (float)(sqrt(-2 * log(1 - erand48(seed))) * cos(6.2831853 * erand48(seed)));
    return values;
}

/* Checks that the relative L2 error against float64 sums is less than 0.08. */
static void compare(const char *what, const float *got, const double *want, int count)
{
    double errors = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        errors += pow((double)got[i] - want[i], 2);
        squares += pow(want[i], 2);
    }
    check(sqrt(errors / squares) < 0.08, what);
}

static void call_reductions(int count)
{
    const int own = count / ranks;
    float *values = make_normal(count), *result = calloc((size_t)count, sizeof *result);
    double *wide = malloc((size_t)count * sizeof *wide);
    for (int i = 0; i < count; i++)
        wide[i] = values[i];
    MPI_Allreduce(MPI_IN_PLACE, wide, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(values, result, count, MPI_FLOAT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    if (rank == ranks - 1)
        compare("MPI_Reduce", result, wide, count);
    MPI_Reduce_scatter_block(values, result, own, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    compare("MPI_Reduce_scatter_block", result, wide + (size_t)rank * (size_t)own, own);
    free(values), free(result), free(wide);
}

static void call_others(void)
{
    static float buffer[1000];
    int own[3] = {rank, 2, 3}, *all = calloc(3 * (size_t)ranks, sizeof *all), period = 1;
    int *zeros = calloc((size_t)ranks, sizeof *zeros);
    MPI_Datatype *types = malloc((size_t)ranks * sizeof(MPI_Datatype));
    double pair[1] = {rank}, sum[1];
    MPI_Comm ring;
    MPI_Request request;
    for (int i = 0; i < ranks; i++)
        types[i] = MPI_INT;
    for (int i = 0; i < 3; i++)
        EITHER_COUNT(i == 1, MPI_Bcast, buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Ibcast(buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EITHER_COUNT(1, MPI_Allgather, own, 3, MPI_INT, all, 3, MPI_INT, MPI_COMM_WORLD);
    check(all[3 * (ranks - 1)] == ranks - 1, "MPI_Allgather");
    MPI_Scan(pair, sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(sum[0] == rank * (rank + 1) / 2.0, "MPI_Scan");
    MPI_Gatherv(own, 0, MPI_INT, all, zeros, zeros, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Alltoallw(own, zeros, zeros, types, all, zeros, zeros, types, MPI_COMM_WORLD);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &ring);
    MPI_Neighbor_alltoall(own, 1, MPI_INT, all, 1, MPI_INT, ring);
    MPI_Comm_free(&ring);
    free(all), free(zeros), free(types);
}

/* The last rank reduces fewer elements than the others, which wait until the job is aborted. */
static void mismatch(const char *what)
{
    static float values[100000], result[100000];
    const int count = rank == ranks - 1 ? 50000 : 100000;
    int *counts = malloc((size_t)ranks * sizeof *counts);
    for (int i = 0; i < ranks; i++)
        counts[i] = i == 0 ? count : 0;
    if (strcmp(what, "reduce") == 0)
        MPI_Reduce(values, result, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    else
        MPI_Reduce_scatter(values, result, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    free(counts);
}

static void print_outcome(const char *call, int status)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = 0, length = 0;
    MPI_Error_class(status, &class);
    MPI_Error_string(status, text, &length);
    if (rank == 0)
        printf("%s: class %d, %s\n", call, class, text);
}

#define TRY(call) print_outcome(#call, call)

static void call_wrong(void)
{
    static float in[5000], out[5000];
    int counts[64] = {1};
    counts[1] = -1;
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    TRY(MPI_Reduce(in, out, -1, MPI_FLOAT, MPI_SUM, 0, world));
    TRY(MPI_Reduce(in, out, 5000, MPI_FLOAT, MPI_SUM, -3, world));
    TRY(MPI_Reduce(in, out, 5000, MPI_FLOAT, MPI_SUM, 99, world));
    TRY(MPI_Reduce(in, out, 5000, MPI_DATATYPE_NULL, MPI_SUM, 0, world));
    TRY(MPI_Reduce(in, out, 5000, MPI_FLOAT, MPI_OP_NULL, 0, world));
    TRY(MPI_Reduce(in, out, 5000, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_NULL));
    TRY(MPI_Reduce_scatter(in, out, counts, MPI_FLOAT, MPI_SUM, world));
    TRY(MPI_Reduce_scatter(in, out, counts, MPI_DATATYPE_NULL, MPI_SUM, world));
    TRY(MPI_Reduce_scatter_block(in, out, -5, MPI_FLOAT, MPI_SUM, world));
    TRY(MPI_Reduce_scatter_block(in, out, 5000, MPI_FLOAT, MPI_OP_NULL, world));
    TRY(MPI_Bcast(in, -1, MPI_FLOAT, 0, world));
    TRY(MPI_Bcast(in, 1, MPI_FLOAT, 0, MPI_COMM_NULL));
    TRY(MPI_Allgather(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_DATATYPE_NULL, world));
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (strcmp(argv[1], "mismatch") == 0) {
        mismatch(argv[2]);
    } else if (strcmp(argv[1], "wrong") == 0) {
        call_wrong();
    } else {
        call_reductions(atoi(argv[1]));
        call_others();
    }
    return job_end("work done, ");
}
