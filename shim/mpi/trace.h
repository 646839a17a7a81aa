/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of the job (COMPSHIM_TRACE). */
#ifndef CSHIM_MPI_TRACE_H
#define CSHIM_MPI_TRACE_H

#include "shim/mpi/job.h"

/* Asks rank 0's environment whether and where COMPSHIM_TRACE writes a trace, and compares the
 * ranks' clocks. Collective, as the next one. */
void cshim_trace_setup(void);
/* Writes the trace and frees it. */
void cshim_trace_finish(void);

#endif
