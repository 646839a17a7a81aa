/* SPDX-License-Identifier: Apache-2.0 */
/* Adds NCCL's calls to traces (shim/report/trace.h). */
#ifndef CSHIM_NCCL_TRACE_H
#define CSHIM_NCCL_TRACE_H

#include "shim/nccl/timeline.h"
#include "shim/report/trace.h"

/* Adds the calls and phases of a timeline to the traces of their jobs, after
 * cshim_timeline_add_up. `begin` is the time of the first mark by the host's clock
 * (cshim_seconds). */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);
/* Writes the names of the lanes, one for each CUDA stream, to a trace file. */
void cshim_nccl_name_lanes(struct cshim_trace_file *file, int rank);

#endif
