/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded after the shim, makes calls of the engine to the MPI library fail.
 *
 * If the program sets standin_refused_call to N, the N-th collective from then on (REFUSABLE) fails
 * without being made, and the variable becomes 0. If it sets standin_refused_tests to N, the next N
 * calls of PMPI_Testsome fail. While standin_refused_samples is 1, PMPI_Ireduce succeeds, but
 * PMPI_Test returns an error when the request is complete. With STANDIN_REFUSED_GROUPS=N in the
 * environment, PMPI_Comm_create_group fails on the first N ranks of the world. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int standin_refused_call, standin_refused_tests, standin_refused_samples;
static MPI_Request sample = MPI_REQUEST_NULL; /* latest request whose PMPI_Test is to fail */
static MPI_Comm sample_comm;

/* Only the engine calls this: the program does not call MPI_Testsome in its case `waiting`. */
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

/* Returns true if the call that is being made on `comm` is to fail. */
static int is_refused(MPI_Comm comm)
{
    if (standin_refused_call == 0 || --standin_refused_call > 0)
        return 0;
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return 1;
}

#define REFUSABLE(NAME, PARAMETERS, ...)                                                           \
    EXPORT int PMPI_##NAME PARAMETERS                                                              \
    {                                                                                              \
        int(*real) PARAMETERS = NULL;                                                              \
        *(void **)&real = dlsym(RTLD_NEXT, "PMPI_" #NAME);                                         \
        return is_refused(comm) ? MPI_ERR_OTHER : real(__VA_ARGS__);                               \
    }
#define VECTOR void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op
#define BLOCKS                                                                                     \
    const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,       \
        MPI_Datatype recvtype, MPI_Comm comm
REFUSABLE(Allreduce, (const void *sendbuf, VECTOR, MPI_Comm comm), sendbuf, recvbuf, count,
          datatype, op, comm)
REFUSABLE(Reduce, (const void *sendbuf, VECTOR, int root, MPI_Comm comm), sendbuf, recvbuf, count,
          datatype, op, root, comm)
REFUSABLE(Reduce_scatter_block, (const void *sendbuf, VECTOR, MPI_Comm comm), sendbuf, recvbuf,
          count, datatype, op, comm)
REFUSABLE(Allgather, (BLOCKS), sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)
REFUSABLE(Alltoall, (BLOCKS), sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)
REFUSABLE(Bcast, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm), buffer,
          count, datatype, root, comm)
REFUSABLE(Ibcast,
          (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
           MPI_Request *request),
          buffer, count, datatype, root, comm, request)
REFUSABLE(Barrier, (MPI_Comm comm), comm)

EXPORT int PMPI_Ireduce(const void *sendbuf, VECTOR, int root, MPI_Comm comm, MPI_Request *request)
{
    int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Ireduce");
    if (is_refused(comm))
        return MPI_ERR_OTHER;
    const int status = real(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    if (standin_refused_samples > 0) {
        sample = *request;
        sample_comm = comm;
    }
    return status;
}

EXPORT int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    int (*real)(MPI_Comm, MPI_Group, int, MPI_Comm *);
    int rank;
    const char *refused = getenv("STANDIN_REFUSED_GROUPS");
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Comm_create_group");
    const int status = real(comm, group, tag, made);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (status != MPI_SUCCESS || !(is_refused(comm) || (refused != NULL && rank < atoi(refused))))
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
