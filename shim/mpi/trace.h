/* SPDX-License-Identifier: Apache-2.0 */
/* Trace of the job (COMPSHIM_TRACE). Both functions are collective over the job. */
#ifndef CSHIM_MPI_TRACE_H
#define CSHIM_MPI_TRACE_H

#include "shim/mpi/job.h"

/* Finds out whether rank 0 has COMPSHIM_TRACE. If so, allocates the trace on all ranks and measures
 * the clock offsets; cshim_job.trace stays NULL otherwise, if the file name is too long, and if a
 * rank has no memory. */
void cshim_trace_setup(void);
/* If there is a trace, measures the clock offsets again, writes the trace and frees it. */
void cshim_trace_finish(void);

#endif
