/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the report's figures at the end of the job. */
#ifndef CSHIM_MPI_SUMMARY_H
#define CSHIM_MPI_SUMMARY_H

#include "shim/mpi/job.h"

/* Adds up all ranks' ledgers and observations at rank 0, which writes the report if one is wanted.
 * If ranks are lost, the report lacks some or all figures of these ranks and of the ranks below
 * them in the tree, and rank 0 warns. Collective over the job, in MPI_Finalize. */
void cshim_summary(void);

#endif
