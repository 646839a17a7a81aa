/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements of MPI functions that create requests or take them as arguments. Each one has the
 * parameters, results and errors of the MPI function that it is named after, and is thread-safe. */
#ifndef CSHIM_MPI_REQUESTS_H
#define CSHIM_MPI_REQUESTS_H

#include "shim/mpi/job.h"

/* Parameters that reductions share, with counts of `type`, and the matching arguments (..._A). */
#define CSHIM_REDUCTION(type)                                                                      \
    const void *sendbuf, void *recvbuf, type count, MPI_Datatype datatype, MPI_Op op
#define CSHIM_REDUCTION_A sendbuf, recvbuf, count, datatype, op

int cshim_iallreduce(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Request *request);
int cshim_iallreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request);
int cshim_allreduce_init(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Info info, MPI_Request *request);
int cshim_allreduce_init_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Info info,
                           MPI_Request *request);
int cshim_start(MPI_Request *request);
int cshim_startall(int count, MPI_Request requests[]);
int cshim_request_free(MPI_Request *request);
int cshim_cancel(MPI_Request *request);
/* Frees the engine's data of the persistent requests that the program has not freed. Not
 * thread-safe. */
void cshim_requests_teardown(void);

#endif
