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

/* engine.c: the start and the end of the job, as in struct cshim_mpi_engine. */
int cshim_mpi_start(const struct cshim_mpi_real *real, const char *past);
void cshim_mpi_finalize(void);

#endif
