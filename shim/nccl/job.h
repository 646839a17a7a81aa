/* SPDX-License-Identifier: Apache-2.0 */
/* The process, and its jobs. A job is a policy and the figures that are counted under it. All
 * communicators whose ranks agreed on the same policy text belong to one job. */
#ifndef CSHIM_NCCL_JOB_H
#define CSHIM_NCCL_JOB_H

#include <nccl.h>

#include "shim/core/log.h"
#include "shim/nccl/engine.h"
#include "shim/nccl/rendezvous.h"
#include "shim/report/ledger.h"
#include "shim/report/observed.h"
#include "shim/report/trace.h"

/* Set when the engine starts, and constant afterwards. */
struct cshim_nccl_process {
    const struct cshim_nccl_real *real; /* NCCL's own functions: nothing else may be called */
    pid_t pid;                          /* a forked child has another one, and reports nothing */
    bool beside_mpi;                    /* the MPI engine is in the process, and reports too */
    int version;                        /* of NCCL; 0 if it is not known */
    uint64_t fingerprint;               /* of this library: the ranks must agree in it */
};
extern struct cshim_nccl_process cshim_nccl;

/* Ends a group of NCCL. Returns the first error: what became of the group before, or its end. */
static inline ncclResult_t cshim_nccl_end_group(ncclResult_t status)
{
    const ncclResult_t ended = cshim_nccl.real->GroupEnd();
    return status == ncclSuccess ? ended : status;
}

struct cshim_nccl_job {
    struct cshim_policy *policy;
    char sha256[65];
    struct cshim_ledger ledger;
    uint32_t ranks; /* of the largest communicator whose rank 0 is in this process */
    uint32_t nodes;
    double started;
    struct cshim_observed *observed; /* COMPSHIM=observe: nothing is compressed; else NULL */
    bool is_reported;                /* calls are timed and sampled for a report */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE; else NULL */
    bool due;                        /* something was counted since the last report */
    struct cshim_nccl_job *next;
};

/* The job of an offered policy, made if there is none. Returns NULL after an error message if the
 * policy does not parse or there is no memory. Jobs are never freed. Thread-safe, as all that
 * follows. */
struct cshim_nccl_job *cshim_nccl_job_find(const struct cshim_offer *offer);

/* The policy that this process would choose itself. A wrong policy ends the process. The caller
 * frees offer->text. */
void cshim_nccl_job_load(struct cshim_offer *offer);

/* The job that counts the calls of communicators whose ranks have not agreed. NULL if there is no
 * policy for it. */
struct cshim_nccl_job *cshim_nccl_job_native(void);

/* Notes how many ranks and nodes a communicator of the job has. */
void cshim_nccl_job_grow(struct cshim_nccl_job *job, bool has_rank_0, int ranks, uint32_t nodes);

/* Locks the jobs and returns the first; the others follow by `next`. */
struct cshim_nccl_job *cshim_nccl_jobs_lock(void);
void cshim_nccl_jobs_unlock(void);

/* This process's number in the job, as its launcher has it; 0 if no launcher tells one. */
int cshim_nccl_job_rank(void);

/* Traces of all processes count from the earliest beginning that is known. Takes in when another
 * process began, in nanoseconds of the wall clock (0: it has no trace), and returns the
 * earliest. */
uint64_t cshim_nccl_job_origin(uint64_t began);
/* The same moment by cshim_seconds. */
double cshim_nccl_job_origin_seconds(void);

/* report.c: the files of this process. Each process keeps the events of its ranks and writes a
 * trace of its own, because nothing ends an NCCL job on all ranks at once. When the process ends,
 * what is due is written too: a program need not destroy its communicators. */

/* Adds what a timeline has added up to the traces of its calls' jobs. It began at a time of
 * cshim_seconds: events happened on streams of the GPU, but their times are those of the host. */
struct cshim_timeline;
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);
/* Writes the trace if events were added since it was last written. */
void cshim_nccl_trace_write(void);
/* Writes the report of each job in which something was counted since the last one. */
void cshim_nccl_report_write(void);

#endif
