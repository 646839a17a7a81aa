/* SPDX-License-Identifier: Apache-2.0 */
/* Trace of the job (COMPSHIM_TRACE). Both functions are collective over the job. */
#ifndef CSHIM_MPI_TRACE_H
#define CSHIM_MPI_TRACE_H

#include "shim/mpi/job.h"

/* If rank 0 has COMPSHIM_TRACE, allocates the trace on all ranks and measures the clock offsets.
 * Leaves cshim_job.trace NULL if rank 0 does not have it, if its file name is too long, or if any
 * rank lacks memory. */
void cshim_trace_setup(void);
/* If there is a trace, measures the clock offsets again, writes the trace and frees it. */
void cshim_trace_finish(void);

#endif
