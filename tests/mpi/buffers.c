/* SPDX-License-Identifier: Apache-2.0 */
/* Gives MPI buffers that a library must not write to, and buffers that MPI does not allow. An
 * ordinary MPI program.
 *
 *   mpi_buffers constant    every rank in turn broadcasts a constant table, and then a copy of it
 *   mpi_buffers one_buffer  some ranks pass one buffer as input and output, others MPI_IN_PLACE
 *
 * MPI does not allow one buffer as input and output, but without argument checks libraries usually
 * compute the right sums, except in MPI_Reduce. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define COUNT 40000

static const float table[COUNT] = {1.0009766f, 2, 3, [COUNT - 1] = -7};

static void broadcast_table(int root)
{
    int wrong = 0;
    float *copy = calloc(COUNT, sizeof *copy);
    MPI_Bcast(rank == root ? (float *)table : copy, COUNT, MPI_FLOAT, root, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT && rank != root; i++)
        wrong += copy[i] != table[i];
    check(wrong == 0, "the constant table");
    if (rank == root)
        memcpy(copy, table, sizeof table);
    MPI_Bcast(copy, COUNT, MPI_FLOAT, root, MPI_COMM_WORLD);
    float least = 0;
    MPI_Allreduce(copy, &least, 1, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
    check(copy[0] == least, "a copy of the table that is the same on all ranks");
    check(copy[COUNT - 1] < -6.9F && copy[COUNT - 1] > -7.1F, "its last element");
    free(copy);
}

enum { ALLREDUCE, REDUCE, SCATTER, SCATTER_BLOCK, IALLREDUCE, KINDS };

/* Even ranks pass one buffer as input and output, odd ranks use MPI_IN_PLACE; in MPI_Reduce all
 * pass one buffer. */
static void sum_in_one_buffer(int kind, int count)
{
    static const char *const names[KINDS] = {"MPI_Allreduce", "MPI_Reduce", "MPI_Reduce_scatter",
                                             "MPI_Reduce_scatter_block", "MPI_Iallreduce"};
    float *data = malloc((size_t)(count * ranks) * sizeof *data);
    int *counts = malloc((size_t)ranks * sizeof *counts);
    MPI_Request request;
    for (int i = 0; i < count * ranks; i++)
        data[i] = 1;
    for (int i = 0; i < ranks; i++)
        counts[i] = count;
    const void *send = rank % 2 == 0 ? data : MPI_IN_PLACE;
    switch (kind) {
    case ALLREDUCE:
        MPI_Allreduce(send, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case REDUCE: /* all ranks pass one buffer */
        MPI_Reduce(data, data, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case SCATTER:
        MPI_Reduce_scatter(send, data, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case SCATTER_BLOCK:
        MPI_Reduce_scatter_block(send, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    default:
        MPI_Iallreduce(send, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    }
    /* MPI libraries may read the root's buffer of a reduce after writing to it, so the sums of
     * MPI_Reduce are not checked. */
    check(kind == REDUCE || data[count - 1] == (float)ranks, names[kind]);
    free(counts);
    free(data);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "constant") == 0)
        for (int root = 0; root < ranks; root++)
            broadcast_table(root);
    else
        for (int kind = 0; kind < KINDS; kind++)
            for (int count = 1; count <= 20000; count = count * 20 + 1)
                sum_in_one_buffer(kind, count);
    return job_end("");
}
