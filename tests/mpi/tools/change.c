/* SPDX-License-Identifier: Apache-2.0 */
/* A PMPI tool that changes calls: on rank 1, MPI_Allreduce of floats, unless in place, gets a copy
 * of its input, in another buffer; on all ranks, MPI_Reduce becomes two calls of half the length.
 */
#include <mpi.h>
#include <string.h>

static float own[20000];

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 1 && datatype == MPI_FLOAT && sendbuf != MPI_IN_PLACE) {
        memcpy(own, sendbuf, (size_t)count * sizeof *own);
        sendbuf = own;
    }
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
               int root, MPI_Comm comm)
{
    const int half = count / 2;
    int bytes;
    PMPI_Type_size(datatype, &bytes);
    const size_t first = (size_t)half * (size_t)bytes;
    char *second = recvbuf != NULL ? (char *)recvbuf + first : NULL;
    const int status = PMPI_Reduce(sendbuf, recvbuf, half, datatype, op, root, comm);
    return status != MPI_SUCCESS ? status
                                 : PMPI_Reduce((const char *)sendbuf + first, second, count - half,
                                               datatype, op, root, comm);
}
