/* SPDX-License-Identifier: Apache-2.0 */
/* The files of this process: the reports of its jobs, and COMPSHIM_TRACE. Each process keeps the
 * events of its ranks and writes a trace of its own, because nothing ends an NCCL job on all ranks
 * at once. When the process ends, what is due is written too: a program need not destroy its
 * communicators. All functions are thread-safe. */
#ifndef CSHIM_NCCL_REPORT_H
#define CSHIM_NCCL_REPORT_H

#include "shim/nccl/timeline.h"

/* Adds what a timeline has added up to the traces of its calls' jobs. It began at a time of
 * cshim_seconds: events happened on streams of the GPU, but their times are those of the host. */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);

/* Writes the trace if events were added since it was last written. */
void cshim_nccl_trace_write(void);

/* Writes the report of each job in which something was counted since the last one. */
void cshim_nccl_report_write(void);

#endif
