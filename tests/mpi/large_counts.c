/* SPDX-License-Identifier: Apache-2.0 */
/* Checks functions with large counts, MPI_Allreduce_c and related ones. References to them are
 * weak, as in mpi4py's binary packages: the program uses what it finds. All sums are of small
 * integers.
 *
 *   mpi_large_counts COUNT    calls of each; the reductions that the shim compresses are of COUNT
 *                             floats
 *   mpi_large_counts beyond   counts beyond int, in calls that are never compressed: prints which
 *                             calls return MPI_ERR_COUNT */
#include <mpi.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define REDUCTION const void *input, void *output, MPI_Count count, MPI_Datatype datatype, MPI_Op op
#define BLOCKS                                                                                     \
    const void *input, MPI_Count count, MPI_Datatype datatype, void *output,                       \
        MPI_Count output_count, MPI_Datatype output_datatype
#define WEAK __attribute__((weak))
WEAK int MPI_Allreduce_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Allreduce_init_c(REDUCTION, MPI_Comm comm, MPI_Info info, MPI_Request *request);
WEAK int MPI_Iallreduce_c(REDUCTION, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Reduce_c(REDUCTION, int root, MPI_Comm comm);
WEAK int MPI_Reduce_scatter_block_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Reduce_scatter_c(const void *input, void *output, const MPI_Count counts[],
                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
WEAK int MPI_Scan_c(REDUCTION, MPI_Comm comm);
WEAK int MPI_Ireduce_c(REDUCTION, int root, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
WEAK int MPI_Ibcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                      MPI_Request *request);
WEAK int MPI_Allgather_c(BLOCKS, MPI_Comm comm);
WEAK int MPI_Gather_c(BLOCKS, int root, MPI_Comm comm);
WEAK int MPI_Scatter_c(BLOCKS, int root, MPI_Comm comm);
WEAK int MPI_Alltoall_c(BLOCKS, MPI_Comm comm);

static float value(int of_rank, size_t i)
{
    return (float)((of_rank + (int)(i % 1000)) % 4);
}

/* Returns true if sums[0..count) are the sums of the elements from `first` on. */
static int are_sums(const float *sums, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int r = 0; r < ranks; r++)
            want += value(r, first + i);
        if (sums[i] != want)
            return 0;
    }
    return 1;
}

static void call_scatters(const float *input, float *output, size_t count)
{
    const size_t own = count / (size_t)ranks;
    MPI_Count *counts = calloc((size_t)ranks, sizeof *counts);
    for (int i = 0; i < ranks; i++)
        counts[i] = i < ranks - 1 ? 1 : (MPI_Count)count - ranks + 1;
    MPI_Reduce_scatter_block_c(input, output, (MPI_Count)own, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, (size_t)rank * own, own), "MPI_Reduce_scatter_block_c");
    MPI_Reduce_scatter_c(input, output, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, (size_t)rank, (size_t)counts[rank]), "MPI_Reduce_scatter_c");
    free(counts);
}

static void call_reductions(size_t count)
{
    float *input = malloc(count * sizeof *input), *output = calloc(count, sizeof *output);
    const MPI_Count large = (MPI_Count)count;
    MPI_Request request;
    for (size_t i = 0; i < count; i++)
        input[i] = value(rank, i);
    MPI_Allreduce_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(are_sums(output, 0, count), "MPI_Allreduce_c");
    MPI_Reduce_c(input, output, large, MPI_FLOAT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    check(rank != ranks - 1 || are_sums(output, 0, count), "MPI_Reduce_c");
    call_scatters(input, output, count);
    MPI_Iallreduce_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(are_sums(output, 0, count), "MPI_Iallreduce_c");
    MPI_Allreduce_init_c(input, output, large, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                         &request);
    memset(output, 0, count * sizeof *output);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    check(are_sums(output, 0, count), "MPI_Allreduce_init_c");
    free(input), free(output);
}

static void call_others(void)
{
    static float buffer[1000], sum[1000];
    int own[2] = {rank, 2}, *all = calloc(2 * (size_t)ranks, sizeof *all);
    MPI_Request request;
    buffer[999] = rank == 0 ? 7 : 0;
    MPI_Bcast_c(buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD);
    check(buffer[999] == 7, "MPI_Bcast_c");
    MPI_Ibcast_c(buffer, 1000, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Scan_c(buffer, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check(sum[999] == (float)(7 * (rank + 1)), "MPI_Scan_c");
    MPI_Ireduce_c(buffer, sum, 1000, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(rank != 0 || sum[999] == (float)(7 * ranks), "MPI_Ireduce_c");
    MPI_Allgather_c(own, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    check(all[2 * (ranks - 1)] == ranks - 1, "MPI_Allgather_c");
    /* Arguments that only the root reads, or nobody, may have any value. */
    all[2 * ranks - 2] = -1;
    MPI_Gather_c(own, 2, MPI_INT, all, rank == 0 ? 2 : LLONG_MAX, MPI_INT, 0, MPI_COMM_WORLD);
    check(rank != 0 || all[2 * ranks - 2] == ranks - 1, "MPI_Gather_c");
    MPI_Bcast_c(all, 2 * ranks, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Alltoall_c(MPI_IN_PLACE, LLONG_MAX, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    check(all[0] == 2 * 0 + rank, "MPI_Alltoall_c");
    MPI_Scatter_c(all, rank == 0 ? 2 : LLONG_MAX, MPI_INT, own, 2, MPI_INT, 0, MPI_COMM_WORLD);
    check(own[1] == 2, "MPI_Scatter_c");
    free(all);
}

static void print_class(const char *what, int status)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(status, &class);
    printf("%s: %s\n", what, class == MPI_ERR_COUNT ? "MPI_ERR_COUNT" : "another outcome");
}

static void call_beyond(void)
{
    static char buffer[1];
    MPI_Count *counts = calloc((size_t)ranks, sizeof *counts);
    const MPI_Count beyond = (MPI_Count)INT_MAX + 1;
    counts[ranks - 1] = beyond;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    print_class("bcast", MPI_Bcast_c(buffer, beyond, MPI_CHAR, 0, MPI_COMM_WORLD));
    print_class("allreduce",
                MPI_Allreduce_c(MPI_IN_PLACE, buffer, beyond, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD));
    print_class("reduce_scatter", MPI_Reduce_scatter_c(MPI_IN_PLACE, buffer, counts, MPI_CHAR,
                                                       MPI_MAX, MPI_COMM_WORLD));
    free(counts);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (MPI_Allreduce_c == NULL) {
        if (rank == 0)
            puts("this MPI has no large counts");
    } else if (strcmp(argv[1], "beyond") == 0) {
        call_beyond();
    } else {
        call_reductions((size_t)atol(argv[1]));
        call_others();
    }
    return job_end("work done, ");
}
