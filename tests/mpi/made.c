/* SPDX-License-Identifier: Apache-2.0 */
/* Creates communicators by eleven of MPI's functions. On each, calls MPI_Iallreduce first, then
 * makes a blocking sum and two nonblocking sums at once. An ordinary MPI program. Prints the number
 * of communicators with two or more ranks that rank 0 is in.
 *
 *   mpi_made [ROUNDS]        does this ROUNDS (1) times
 *   mpi_made free [ROUNDS]   creates and frees ROUNDS (1000) communicators without calls, and
 *                            prints the mean microseconds per communicator */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/job.h"

#define COUNT 20000

static int made;

static void sum_on(MPI_Comm *comm, const char *what)
{
    static float in[COUNT], out[3][COUNT];
    MPI_Request requests[2];
    int size, wrong = 0;
    if (*comm == MPI_COMM_NULL)
        return;
    MPI_Comm_size(*comm, &size);
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    MPI_Iallreduce(in, out[0], COUNT, MPI_FLOAT, MPI_SUM, *comm, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    wrong += out[0][COUNT - 1] != (float)size;
    MPI_Allreduce(in, out[0], COUNT, MPI_FLOAT, MPI_SUM, *comm);
    MPI_Iallreduce(in, out[1], COUNT, MPI_FLOAT, MPI_SUM, *comm, &requests[0]);
    MPI_Iallreduce(in, out[2], COUNT, MPI_FLOAT, MPI_SUM, *comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        wrong += out[i][0] != (float)size || out[i][COUNT - 1] != (float)size;
    check(wrong == 0, what);
    made += size > 1;
    MPI_Comm_free(comm);
}

/* On a new communicator, starts two nonblocking calls at once, then makes a blocking one. */
static void sum_at_once(void)
{
    static float in[COUNT], out[3][COUNT];
    MPI_Request requests[2];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    MPI_Iallreduce(in, out[0], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[0]);
    MPI_Iallreduce(in, out[1], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[1]);
    MPI_Allreduce(in, out[2], COUNT, MPI_FLOAT, MPI_SUM, comm);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        check(out[i][COUNT - 1] == (float)ranks, "calls at once");
    sum_on(&comm, "a communicator with calls at once");
}

static void make_by_groups(void)
{
    MPI_Group world, some;
    MPI_Comm comm;
    int range[1][3] = {{0, ranks > 2 ? ranks - 2 : ranks - 1, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &comm);
    sum_on(&comm, "MPI_Comm_create");
    if (rank <= range[0][1]) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 1, &comm);
        sum_on(&comm, "MPI_Comm_create_group");
    }
    MPI_Group_free(&some);
    MPI_Group_free(&world);
}

static void make_topologies(void)
{
    const int dims[1] = {ranks}, periods[1] = {1};
    const int weight = 1;
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    int *index = malloc((size_t)ranks * sizeof *index),
        *edges = malloc((size_t)ranks * sizeof *edges);
    MPI_Comm comm;
    for (int i = 0; i < ranks; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % ranks;
    }
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    sum_on(&comm, "MPI_Cart_create");
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &comm);
    sum_on(&comm, "MPI_Graph_create");
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &weight, 1, &next, &weight,
                                   MPI_INFO_NULL, 0, &comm);
    sum_on(&comm, "MPI_Dist_graph_create_adjacent");
    free(index);
    free(edges);
}

static void make_all(void)
{
    MPI_Comm comm, half, between;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    sum_on(&comm, "MPI_Comm_dup");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    sum_on(&comm, "MPI_Comm_dup_with_info");
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum_on(&comm, "MPI_Comm_idup");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    sum_on(&comm, "MPI_Comm_split");
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &comm);
    sum_on(&comm, "MPI_Comm_split without a rank");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    sum_on(&comm, "MPI_Comm_split_type");
    make_by_groups();
    make_topologies();
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &between);
    MPI_Intercomm_merge(between, rank % 2, &comm);
    sum_on(&comm, "MPI_Intercomm_merge");
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    sum_at_once();
}

static void make_and_free(int rounds)
{
    const double began = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
    }
    if (rank == 0)
        printf("%.2f us\n", (MPI_Wtime() - began) / rounds * 1e6);
}

int main(int argc, char **argv)
{
    char text[64];
    job_begin(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "free") == 0)
        make_and_free(argc > 2 ? atoi(argv[2]) : 1000);
    else
        for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++)
            make_all();
    snprintf(text, sizeof text, "%d communicators, ", made);
    return job_end(text);
}
