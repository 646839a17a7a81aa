/* SPDX-License-Identifier: Apache-2.0 */
/* A small PMPI tool to preload: it wraps MPI_Allreduce, counts calls, calls PMPI_Allreduce, and
 * prints the count at the end. */
#include <mpi.h>
#include <stdio.h>

static int calls;

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    calls++;
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("tool: %d calls\n", calls);
    return PMPI_Finalize();
}
