/* SPDX-License-Identifier: Apache-2.0 */
/* A PMPI tool that counts the calls of every MPI function but MPI_T_*, and the elements of
 * MPI_Allreduce and MPI_Iallreduce. test_tools.sh writes the wrappers that are not in this file to
 * count.S: each adds to its counter and jumps to PMPI_X, like a compiler's tail call. Each rank
 * writes its counts to $TOOL_COUNTS.RANK. The tool sends no messages. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Defined in count.S: the functions' names, ended by NULL, and the calls of each. */
extern const char *const tool_names[];
extern unsigned long tool_calls[];

static unsigned long finalize_calls, allreduce_calls, iallreduce_calls;
static unsigned long allreduce_elements, iallreduce_elements;

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    allreduce_calls++;
    allreduce_elements += (unsigned long)count;
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    iallreduce_calls++;
    iallreduce_elements += (unsigned long)count;
    return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}

int MPI_Finalize(void)
{
    const char *base = getenv("TOOL_COUNTS");
    char path[4096];
    int rank;
    finalize_calls++;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", base != NULL ? base : "counts", rank);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        PMPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; tool_names[i] != NULL; i++)
        if (tool_calls[i] > 0)
            fprintf(file, "%s %lu\n", tool_names[i], tool_calls[i]);
    fprintf(file, "MPI_Allreduce %lu, %lu elements\nMPI_Iallreduce %lu, %lu elements\n",
            allreduce_calls, allreduce_elements, iallreduce_calls, iallreduce_elements);
    fprintf(file, "MPI_Finalize %lu\n", finalize_calls);
    fclose(file);
    return PMPI_Finalize();
}
