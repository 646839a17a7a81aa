/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that the front calls and that return when they are done, each with the contract
 * of its MPI function. */
#ifndef CSHIM_MPI_COLLECTIVES_H
#define CSHIM_MPI_COLLECTIVES_H

#include "shim/mpi/job.h"

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

#endif
