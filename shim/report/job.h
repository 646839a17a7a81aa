/* SPDX-License-Identifier: Apache-2.0 */
/* A job: a policy, and the calls counted under it. With MPI a process has one job, which all ranks
 * end together (shim/mpi); with NCCL and gloo it may have several (shim/report/process.h). */
#ifndef CSHIM_JOB_H
#define CSHIM_JOB_H

#include "shim/report/ledger.h"
#include "shim/report/observed.h"
#include "shim/report/offer.h"
#include "shim/report/trace.h"

struct cshim_job {
    struct cshim_policy *policy;
    char policy_sha256[65];
    struct cshim_ledger ledger;
    int rank;  /* rank of this process; without MPI the number that the launcher gives it, or 0 */
    int ranks; /* number of ranks; without MPI, of the largest communicator whose rank 0 is in this
                  process */
    uint32_t nodes;
    double started; /* time at which the job started, by cshim_seconds() */
    double stopped; /* time at which the job ended; without MPI, of its last report */
    struct cshim_observed *observed; /* COMPSHIM=observe: recorded calls; otherwise NULL */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE: recorded events; otherwise NULL */
    const char *library;             /* name for the report, as "Open MPI 4.1.4" */
    struct cshim_learned *learned;   /* choices of an earlier job; NULL: this job measures */
    char learned_sha256[65];         /* digest of the choices' text; empty without choices */
    /* The wanted report (cshim_report_wanted); NULL: none, so NCCL's calls are not timed for a
     * report, and their samples are not compared. MPI: at rank 0. */
    char *wanted;

    /* The following fields are for libraries other than MPI. */
    uint64_t decisions;     /* NCCL: number of decisions about classes, at rank 0; atomic */
    uint64_t host_waits;    /* NCCL: number of times rank 0's host waited for a decision; atomic */
    bool is_local;          /* the ranks' ledgers are not merged: rank 0 counts for all of them */
    bool due;               /* calls were counted since the last report; atomic */
    unsigned report_number; /* number of the job among those of the process that have written a
                               report; 0: it has written none yet */
    unsigned unreported;    /* number of processes forked from this process whose calls are in no
                               report yet; set when the report is written */
    struct cshim_job *next;
};

/* Sets policy, learned choices and their digests in a job that has none, makes the ledger, and sets
 * the level of the log. Returns false, with an error and nothing to free, if policy or choices do
 * not parse, or without memory. */
bool cshim_job_adopt(struct cshim_job *job, const struct cshim_offer *offer,
                     char message[CSHIM_MESSAGE_MAX]);

/* Marks the job's report as due. */
static inline void cshim_job_touch(struct cshim_job *job)
{
    __atomic_store_n(&job->due, true, __ATOMIC_RELAXED);
}

/* A call that is passed through, and recorded or traced. */
struct cshim_observation {
    struct cshim_job *job; /* NULL: the call is neither recorded nor traced */
    int rank;              /* this process's rank; an error handler may free the communicator during
                              the call */
    enum cshim_reason reason;
    double began;
    struct cshim_kind kind;
};
/* Trace a call on each rank, if there is a trace, and record it on rank 0 for all ranks, if the job
 * observes calls. Called before and after the library makes the call. */
void cshim_observation_begin(struct cshim_observation *observation, struct cshim_job *job,
                             const struct cshim_call *call, int rank, enum cshim_reason reason);
void cshim_observation_end(struct cshim_observation *observation);

#endif
