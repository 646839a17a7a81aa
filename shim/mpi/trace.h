/* SPDX-License-Identifier: Apache-2.0 */
/* COMPSHIM_TRACE with MPI: whose clock the events' times are of, and how they come to a file. Both
 * functions are collective. */
#ifndef CSHIM_MPI_TRACE_H
#define CSHIM_MPI_TRACE_H

/* Rank 0's environment says whether and where; the ranks' clocks are compared. */
void cshim_trace_setup(void);
/* Writes the trace and frees it. */
void cshim_trace_finish(void);

#endif
