/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the job's ledger. */
#ifndef CSHIM_MPI_SUMMARY_H
#define CSHIM_MPI_SUMMARY_H

#include "shim/mpi/job.h"

/* Collects all ranks' ledgers at rank 0, which writes the report. Collective. */
void cshim_summary(void);

#endif
