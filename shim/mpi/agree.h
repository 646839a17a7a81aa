/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of the ranks at MPI_Init: whether all of them have the shim, and which policy
 * holds. */
#ifndef CSHIM_MPI_AGREE_H
#define CSHIM_MPI_AGREE_H

#include "shim/mpi/job.h"

/* Has all ranks say that they have the shim, and gives them rank 0's policy and its name of the
 * job, which fills cshim_job and cshim_mpi. Collective. Returns true if the job compresses. Ends
 * the job if rank 0's policy is wrong. */
bool cshim_agree(void);
/* Frees what the agreement kept, in a job that has agreed. Collective. */
void cshim_agree_finalize(void);

#endif
