/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the front calls, each with the contract of its MPI function: the collectives
 * that return when they are done (collectives.c), and what makes requests and takes them
 * (requests.c). */
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

int cshim_allreduce(CSHIM_REDUCTION(int), MPI_Comm comm);
int cshim_allreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm);
int cshim_reduce_to_root(CSHIM_REDUCTION(int), int root, MPI_Comm comm);
int cshim_reduce_to_root_c(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm);
int cshim_reduce_scatter(CSHIM_SCATTERED(int), MPI_Comm comm);
int cshim_reduce_scatter_c(CSHIM_SCATTERED(MPI_Count), MPI_Comm comm);
int cshim_reduce_scatter_block(CSHIM_REDUCTION(int), MPI_Comm comm);
int cshim_reduce_scatter_block_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm);
int cshim_allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                    int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int cshim_allgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

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

#endif
