/* SPDX-License-Identifier: Apache-2.0 */
/* A tool that calls the next function in the loader's order (RTLD_NEXT), as EZTrace does, and no
 * PMPI_X. Rank 0 prints the number of its calls of MPI_Allreduce. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int calls, rank;

int MPI_Init(int *argc, char ***argv)
{
    int (*real)(int *, char ***);
    *(void **)&real = dlsym(RTLD_NEXT, "MPI_Init");
    const int status = real(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return status;
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    *(void **)&real = dlsym(RTLD_NEXT, "MPI_Allreduce");
    calls++;
    return real(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Finalize(void)
{
    int (*real)(void);
    *(void **)&real = dlsym(RTLD_NEXT, "MPI_Finalize");
    if (rank == 0)
        printf("tool: %d calls\n", calls);
    return real();
}
