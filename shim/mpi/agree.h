/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks in MPI_Init: do all of them have the shim, and which policy do they use?
 * cshim_agree() is called once, after the real MPI_Init. If it returns true, cshim_agree_finalize()
 * is called once: before the real MPI_Finalize, or at once if the engine does not start. */
#ifndef CSHIM_MPI_AGREE_H
#define CSHIM_MPI_AGREE_H

#include "shim/mpi/job.h"

/* Finds out whether all ranks have this version of the shim and its codec table. If so, gives them
 * rank 0's policy, job name (cshim_report_job) and learned choices, and fills cshim_job and
 * cshim_mpi. Collective over MPI_COMM_WORLD. Returns true on all ranks if they agree to compress,
 * otherwise false on all. Ends the job if rank 0's policy, environment or learned choices are
 * wrong, or without memory. */
bool cshim_agree(void);
/* Frees the learned choices, the shared scratch and the contents of cshim_mpi.world, but not its
 * communicator. Called only if cshim_agree() has returned true. */
void cshim_agree_finalize(void);

#endif
