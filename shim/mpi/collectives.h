/* SPDX-License-Identifier: Apache-2.0 */
/* What the front calls: the engine's begin and end, and functions with the contract of their MPI
 * function each. */
#ifndef CSHIM_MPI_COLLECTIVES_H
#define CSHIM_MPI_COLLECTIVES_H

#include "shim/mpi/job.h"

/* Parameters and arguments that reductions have in common; `type` is that of counts. */
#define CSHIM_REDUCTION(type)                                                                      \
    const void *sendbuf, void *recvbuf, type count, MPI_Datatype datatype, MPI_Op op
#define CSHIM_REDUCTION_A sendbuf, recvbuf, count, datatype, op
#define CSHIM_SCATTERED(type)                                                                      \
    const void *sendbuf, void *recvbuf, const type recvcounts[], MPI_Datatype datatype, MPI_Op op
#define CSHIM_SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op

/* requests.c: what makes requests and takes them. */
int cshim_iallreduce(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Request *request);
int cshim_iallreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request);
int cshim_allreduce_init(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Info info, MPI_Request *request);
int cshim_allreduce_init_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Info info,
                           MPI_Request *request);
int cshim_start(MPI_Request *request);
int cshim_startall(int count, MPI_Request requests[]);
int cshim_request_free(MPI_Request *request);
int cshim_cancel(MPI_Request *request);
/* Frees what the program did not. */
void cshim_requests_teardown(void);

/* engine.c: the start and the end of the job, as in struct cshim_mpi_engine. */
int cshim_mpi_start(const struct cshim_mpi_real *real, const char *past);
void cshim_mpi_finalize(void);

#endif
