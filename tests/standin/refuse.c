/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after the shim, makes the engine's next calls of PMPI_Testsome, PMPI_Ireduce and
 * PMPI_Reduce fail: as many as the program sets in standin_refused_tests, standin_refused_reduces
 * and standin_refused_sums. While standin_refused_samples is positive, PMPI_Ireduce succeeds, but
 * PMPI_Test returns an error when the request is complete. With STANDIN_REFUSED_GROUPS=N,
 * PMPI_Comm_create_group fails on the first N ranks of the world. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int standin_refused_tests, standin_refused_reduces, standin_refused_samples;
EXPORT int standin_refused_sums;
static MPI_Request sample = MPI_REQUEST_NULL; /* latest request whose PMPI_Test is to fail */
static MPI_Comm sample_comm;

/* Only the engine calls this: the program does not call MPI_Testsome in its case `refused`. */
EXPORT int PMPI_Testsome(int count, MPI_Request requests[], int *ended, int indices[],
                         MPI_Status statuses[])
{
    int (*real)(int, MPI_Request[], int *, int[], MPI_Status[]) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Testsome");
    if (standin_refused_tests > 0) {
        standin_refused_tests--;
        return MPI_ERR_OTHER;
    }
    return real(count, requests, ended, indices, statuses);
}

EXPORT int PMPI_Ireduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                        MPI_Op op, int root, MPI_Comm comm, MPI_Request *request)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Ireduce");
    if (standin_refused_reduces > 0) {
        standin_refused_reduces--;
        PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
        return MPI_ERR_OTHER;
    }
    const int status = real(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    if (standin_refused_samples > 0) {
        sample = *request;
        sample_comm = comm;
    }
    return status;
}

EXPORT int PMPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, int root, MPI_Comm comm)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Reduce");
    if (standin_refused_sums <= 0)
        return real(sendbuf, recvbuf, count, datatype, op, root, comm);
    standin_refused_sums--;
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

EXPORT int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    int (*real)(MPI_Comm, MPI_Group, int, MPI_Comm *);
    int rank;
    const char *refused = getenv("STANDIN_REFUSED_GROUPS");
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Comm_create_group");
    const int status = real(comm, group, tag, made);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (refused == NULL || status != MPI_SUCCESS || rank >= atoi(refused))
        return status;
    PMPI_Comm_free(made);
    return MPI_ERR_OTHER;
}

EXPORT int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    int (*real)(MPI_Request *, int *, MPI_Status *);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Test");
    const MPI_Request tested = *request;
    const int outcome = real(request, done, status);
    if (!*done || tested == MPI_REQUEST_NULL || tested != sample)
        return outcome;
    sample = MPI_REQUEST_NULL;
    PMPI_Comm_call_errhandler(sample_comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}
