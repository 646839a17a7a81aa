/* SPDX-License-Identifier: Apache-2.0 */
/* A PMPI tool that follows requests, as tracers do. It records each request that one of its
 * wrappers creates, and counts those that are waited for, tested, started or freed without being
 * known, and those that never end. MPI_Iallreduce passes a request variable of its own to PMPI.
 * Rank 0 prints the sums over all ranks. */
#include <mpi.h>
#include <stdio.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#if OMPI_MAJOR_VERSION < 5
#define MPI_Allreduce_init MPIX_Allreduce_init
#define PMPI_Allreduce_init PMPIX_Allreduce_init
#endif
#endif

enum { MADE, ENDED, STARTED, FREED, UNKNOWN, LEFT, COUNTS };
static int counts[COUNTS];
static struct {
    MPI_Request request;
    int persistent;
} known[1000];
static int kept;

static int find_request(MPI_Request request)
{
    for (int i = 0; i < kept; i++)
        if (known[i].request == request)
            return i;
    return -1;
}

static void keep(MPI_Request request, int persistent)
{
    counts[MADE]++;
    counts[UNKNOWN] += find_request(request) >= 0; /* two active requests have the same handle */
    known[kept].request = request;
    known[kept++].persistent = persistent;
}

/* Records what happened to the request whose handle was `before`. */
static void note_request(MPI_Request before, int what)
{
    const int i = find_request(before);
    if (before == MPI_REQUEST_NULL)
        return;
    counts[what]++;
    counts[UNKNOWN] += i < 0;
    if (i >= 0 && (what == FREED || (what == ENDED && !known[i].persistent)))
        known[i] = known[--kept];
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    MPI_Request own;
    const int status = PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, &own);
    keep(own, 0);
    *request = own;
    return status;
}

int MPI_Allreduce_init(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    const int status =
        PMPI_Allreduce_init(sendbuf, recvbuf, count, datatype, op, comm, info, request);
    keep(*request, 1);
    return status;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int status = PMPI_Irecv(buffer, count, datatype, source, tag, comm, request);
    keep(*request, 0);
    return status;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype datatype, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int status = PMPI_Isend(buffer, count, datatype, to, tag, comm, request);
    keep(*request, 0);
    return status;
}

int MPI_Start(MPI_Request *request)
{
    note_request(*request, STARTED);
    return PMPI_Start(request);
}

/* Starts the requests one by one. */
int MPI_Startall(int count, MPI_Request requests[])
{
    int status = MPI_SUCCESS;
    for (int i = 0; i < count && status == MPI_SUCCESS; i++) {
        note_request(requests[i], STARTED);
        status = PMPI_Start(&requests[i]);
    }
    return status;
}

int MPI_Request_free(MPI_Request *request)
{
    note_request(*request, FREED);
    return PMPI_Request_free(request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *result)
{
    const MPI_Request before = *request;
    const int status = PMPI_Wait(request, result);
    note_request(before, ENDED);
    return status;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status results[])
{
    MPI_Request before[8];
    for (int i = 0; i < count; i++)
        before[i] = requests[i];
    const int status = PMPI_Waitall(count, requests, results);
    for (int i = 0; i < count; i++)
        note_request(before[i], ENDED);
    return status;
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *result)
{
    const MPI_Request before = *request;
    const int status = PMPI_Test(request, done, result);
    if (*done)
        note_request(before, ENDED);
    else
        counts[UNKNOWN] += before != MPI_REQUEST_NULL && find_request(before) < 0;
    return status;
}

int MPI_Finalize(void)
{
    int rank, sums[COUNTS] = {0};
    counts[LEFT] = kept;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counts, sums, COUNTS, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("tool: %d requests made, %d started, %d freed, %d unknown, %d left\n", sums[MADE],
               sums[STARTED], sums[FREED], sums[UNKNOWN], sums[LEFT]);
    return PMPI_Finalize();
}
