/* SPDX-License-Identifier: Apache-2.0 */
/* A PMPI tool that sends messages of its own: in MPI_Init and MPI_Finalize, during calls of the
 * program, and in wrappers of functions that the shim does not wrap. Its sums are of integers that
 * float32 holds exactly and lossy codecs do not. Rank 0 prints how many sums all ranks made (an
 * exchange by Sendrecv counts as one), and how many were wrong: `beside` are those that
 * MPI_Allreduce makes before the program's sum, with the same length and communicator, `apart` all
 * others. */
#include <mpi.h>
#include <stdio.h>

enum { ELEMENTS = 20000, BESIDE = 0, APART = 1 };
static float own[ELEMENTS], sums[ELEMENTS];
static int calls, made[2], wrong[2];

static void fill_values(MPI_Comm comm, int count)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    for (int i = 0; i < count; i++)
        own[i] = (float)(1000 * (rank + 1) + i);
}

/* Counts a sum of this tool as right or wrong by its first `count` elements. */
static void check_sum(MPI_Comm comm, int count, int where)
{
    int ranks, bad = 0;
    PMPI_Comm_size(comm, &ranks);
    for (int i = 0; i < count; i++)
        bad |= sums[i] != (float)(500 * ranks * (ranks + 1) + ranks * i);
    made[where]++;
    wrong[where] += bad;
}

static void sum_all(MPI_Comm comm, int count, int where)
{
    fill_values(comm, count);
    PMPI_Allreduce(own, sums, count, MPI_FLOAT, MPI_SUM, comm);
    check_sum(comm, count, where);
}

/* Sends in other ways: point to point, nonblocking, a broadcast, a reduce. */
static void send_others(void)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request;
    int rank, ranks, got = -1;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    PMPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 9, &got, 1, MPI_INT,
                  (rank + ranks - 1) % ranks, 9, comm, MPI_STATUS_IGNORE);
    made[APART]++;
    wrong[APART] += got != (rank + ranks - 1) % ranks;
    fill_values(comm, ELEMENTS);
    PMPI_Iallreduce(own, sums, ELEMENTS, MPI_FLOAT, MPI_SUM, comm, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    check_sum(comm, ELEMENTS, APART);
    PMPI_Reduce(own, sums, ELEMENTS, MPI_FLOAT, MPI_SUM, ranks - 1, comm);
    PMPI_Bcast(sums, ELEMENTS, MPI_FLOAT, ranks - 1, comm);
    check_sum(comm, ELEMENTS, APART);
}

int MPI_Init(int *argc, char ***argv)
{
    const int status = PMPI_Init(argc, argv);
    sum_all(MPI_COMM_WORLD, ELEMENTS, APART);
    return status;
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    calls++;
    if (datatype == MPI_FLOAT && op == MPI_SUM && count <= ELEMENTS)
        sum_all(comm, count, BESIDE);
    PMPI_Barrier(comm);
    const int status = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    send_others();
    return status;
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    calls++;
    const int status = PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    sum_all(comm, ELEMENTS, APART);
    return status;
}

int MPI_Wait(MPI_Request *request, MPI_Status *result)
{
    calls++;
    sum_all(MPI_COMM_WORLD, ELEMENTS, APART);
    return PMPI_Wait(request, result);
}

int MPI_Barrier(MPI_Comm comm)
{
    calls++;
    sum_all(comm, ELEMENTS, APART);
    return PMPI_Barrier(comm);
}

int MPI_Pcontrol(const int level, ...)
{
    calls++;
    send_others();
    return PMPI_Pcontrol(level);
}

int MPI_Finalize(void)
{
    int rank, all[5], counts[] = {calls, made[0], wrong[0], made[1], wrong[1]};
    sum_all(MPI_COMM_WORLD, ELEMENTS, APART);
    counts[3] = made[1];
    counts[4] = wrong[1];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counts, all, 5, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("tool: %d calls; beside: %d sums, %d wrong; apart: %d sums, %d wrong\n", all[0],
               all[1], all[2], all[3], all[4]);
    return PMPI_Finalize();
}
