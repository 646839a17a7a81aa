/* SPDX-License-Identifier: Apache-2.0 */
/* Spawns processes, merges both jobs, and sums on the merged communicator and on those made from
 * it. Before and after the merge, rank 0 of each job waits for any message from the other one, and
 * must receive only what the program sends. An ordinary MPI program.
 *
 *   mpi_merged COMMAND LEVELS PROCESSES
 *
 * spawns PROCESSES times "COMMAND mpi_merged COMMAND LEVELS-1 PROCESSES", unless LEVELS is 0. With
 * PROCESSES = M+N, by MPI_Comm_spawn_multiple. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/mpi/job.h"

#define COUNT 20000

/* Makes a blocking and two nonblocking sums, the nonblocking ones first. */
static void sum_on(MPI_Comm comm, const char *what)
{
    static float in[COUNT], out[2][COUNT], data[COUNT];
    MPI_Request requests[2];
    int size;
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    for (int i = 0; i < 2; i++)
        MPI_Iallreduce(in, out[i], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++)
        check(out[i][0] == (float)size && out[i][COUNT - 1] == (float)size, what);
    check(sum_ones(data, COUNT, comm) == 0, what);
}

/* Sends `value` to a rank and receives the same into `received`, whose receive is active. */
static void swap(int value, const int *received, MPI_Request *request, int peer, MPI_Comm comm)
{
    MPI_Status status;
    int bytes = 0;
    MPI_Send(&value, 1, MPI_INT, peer, 7, comm);
    MPI_Wait(request, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    check(*received == value && status.MPI_TAG == 7 && bytes == sizeof value, "a message");
}

/* Merges twice and sums on the results. Disconnects the intercommunicator before the last sums. */
static void meet(MPI_Comm between, int is_spawned)
{
    MPI_Comm merged, again, copy, part, own;
    MPI_Request request;
    int received[2048] = {0}, all, other, merged_rank;
    MPI_Comm_remote_size(between, &other);
    if (rank == 0)
        MPI_Irecv(received, 2048, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, between, &request);
    MPI_Intercomm_merge(between, is_spawned, &merged);
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &merged_rank);
    check(all == ranks + other, "the number of merged ranks");
    if (rank == 0) {
        swap(1, received, &request, 0, between);
        MPI_Irecv(received, 2048, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, merged, &request);
    }
    sum_on(merged, "merged");
    MPI_Intercomm_merge(between, is_spawned, &again);
    MPI_Comm_disconnect(&between);
    if (rank == 0)
        swap(2, received, &request, is_spawned ? 0 : ranks, merged);
    MPI_Comm_dup(merged, &copy);
    MPI_Comm_free(&merged);
    sum_on(copy, "a duplicate of a freed communicator");
    MPI_Comm_split(copy, 0, merged_rank, &part);
    sum_on(part, "split");
    MPI_Comm_split(copy, is_spawned, 0, &own);
    sum_on(own, "split into the jobs");
    sum_on(again, "merged again");
    MPI_Comm_free(&copy);
    MPI_Comm_free(&part);
    MPI_Comm_free(&own);
    MPI_Comm_free(&again);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, spawned;
    char levels[16];
    job_begin(&argc, &argv);
    if (argc != 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        meet(parent, 1);
    if (atoi(argv[2]) > 0) {
        snprintf(levels, sizeof levels, "%d", atoi(argv[2]) - 1);
        char *arguments[] = {argv[0], argv[1], levels, argv[3], NULL};
        char *commands[] = {argv[1], argv[1]}, **both[] = {arguments, arguments};
        const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        int processes[2] = {0};
        if (sscanf(argv[3], "%d+%d", &processes[0], &processes[1]) == 2)
            MPI_Comm_spawn_multiple(2, commands, both, processes, infos, ranks - 1, MPI_COMM_WORLD,
                                    &spawned, MPI_ERRCODES_IGNORE);
        else
            MPI_Comm_spawn(argv[1], arguments, processes[0], MPI_INFO_NULL, ranks - 1,
                           MPI_COMM_WORLD, &spawned, MPI_ERRCODES_IGNORE);
        meet(spawned, 0);
    }
    return job_end("");
}
