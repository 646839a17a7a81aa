/* SPDX-License-Identifier: Apache-2.0 */
/* The process, as the NCCL engine sees it besides shim/report/job.h. */
#ifndef CSHIM_NCCL_JOB_H
#define CSHIM_NCCL_JOB_H

#include <nccl.h>

#include "shim/core/log.h"
#include "shim/nccl/engine.h"
#include "shim/nccl/rendezvous.h"
#include "shim/report/job.h"

/* Set when the engine starts, and constant afterwards. */
struct cshim_nccl_process {
    const struct cshim_nccl_real *real; /* NCCL's own functions: nothing else may be called */
    uint64_t fingerprint;               /* of this library: the ranks must agree in it */
};
extern struct cshim_nccl_process cshim_nccl;

/* Ends a group of NCCL. Returns the first error: what became of the group before, or its end. */
static inline ncclResult_t cshim_nccl_end_group(ncclResult_t status)
{
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* Adds what a timeline has added up to the traces of its calls' jobs. It began at a time of
 * cshim_seconds: events happened on streams of the GPU, but their times are those of the host. */
struct cshim_timeline;
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);
/* Names the streams of these events in a trace's file. */
void cshim_nccl_name_lanes(struct cshim_trace_file *file, int rank);

#endif
