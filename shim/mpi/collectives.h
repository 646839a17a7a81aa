/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter lists that the reductions share. The blocking collectives are static in collectives.c.
 */
#ifndef CSHIM_MPI_COLLECTIVES_H
#define CSHIM_MPI_COLLECTIVES_H

#include "shim/mpi/job.h"

/* Parameters that reductions share, with counts of `type`, and the matching arguments (..._A). */
#define CSHIM_REDUCTION(type)                                                                      \
    const void *sendbuf, void *recvbuf, type count, MPI_Datatype datatype, MPI_Op op
#define CSHIM_REDUCTION_A sendbuf, recvbuf, count, datatype, op
#define CSHIM_SCATTERED(type)                                                                      \
    const void *sendbuf, void *recvbuf, const type recvcounts[], MPI_Datatype datatype, MPI_Op op
#define CSHIM_SCATTERED_A sendbuf, recvbuf, recvcounts, datatype, op

#endif
