/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks say that they have the shim, and get rank 0's policy and its name of the job. */
#ifndef CSHIM_MPI_AGREE_H
#define CSHIM_MPI_AGREE_H

#include <stdbool.h>

/* Fills cshim_job and cshim_mpi. Returns true if the job compresses. Ends the job if rank 0's
 * policy is wrong. Collective. */
bool cshim_agree(void);
/* Frees what the agreement kept; for jobs that have agreed. */
void cshim_agree_finalize(void);

#endif
