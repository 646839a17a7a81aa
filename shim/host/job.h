/* SPDX-License-Identifier: Apache-2.0 */
/* The job, as an engine that works on host memory sees it.
 *
 * A process has one. The engine writes it at the start and at the end of the job, from one thread.
 * Between these only the ledger, the observations and the trace change; each is thread-safe. */
#ifndef CSHIM_HOST_JOB_H
#define CSHIM_HOST_JOB_H

#include "shim/core/layout.h"
#include "shim/report/ledger.h"
#include "shim/report/observed.h"
#include "shim/report/trace.h"

struct cshim_job {
    struct cshim_policy *policy;
    char policy_sha256[65];
    struct cshim_ledger ledger;
    int rank;
    int ranks;
    struct cshim_layout layout;      /* of all ranks of the job */
    double started;                  /* cshim_seconds */
    double stopped;                  /* when the program came to the end of the job */
    struct cshim_observed *observed; /* COMPSHIM=observe: calls are written down; else NULL */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE: events are kept; else NULL */
};
extern struct cshim_job cshim_job;

#endif
