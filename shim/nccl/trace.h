/* SPDX-License-Identifier: Apache-2.0 */
/* COMPSHIM_TRACE: each process keeps the events of its ranks, and writes them to a file of its own,
 * because nothing ends an NCCL job on all ranks at once. Events happened on streams of the GPU;
 * their times are those of the host's clock. All functions are thread-safe. */
#ifndef CSHIM_NCCL_TRACE_H
#define CSHIM_NCCL_TRACE_H

#include "shim/nccl/timeline.h"

/* Adds what a timeline has added up to the traces of its calls' jobs. It began at a time of
 * cshim_seconds. */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);

/* Writes this process's file if events were added since it was last written. */
void cshim_nccl_trace_write(void);

#endif
