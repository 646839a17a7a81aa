/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the report's figures at the end of the job. */
#ifndef CSHIM_MPI_SUMMARY_H
#define CSHIM_MPI_SUMMARY_H

#include "shim/mpi/job.h"

/* Adds up all ranks' ledgers and observations at rank 0, which writes the report. The report then
 * lacks some or all figures of lost ranks and of the ranks below them in the tree; rank 0 warns of
 * that. Collective over the job, in MPI_Finalize. */
void cshim_summary(void);

#endif
