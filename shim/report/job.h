/* SPDX-License-Identifier: Apache-2.0 */
/* A job: a policy, and what is counted under it.
 *
 * MPI has one job in a process, whose end all ranks come to together (shim/mpi). Libraries without
 * such an end have any number of them: all communicators whose ranks agreed on the same policy text
 * belong to one job, and the process writes its own files when it ends. The functions below are for
 * these libraries. They are thread-safe, but for cshim_process_start. */
#ifndef CSHIM_JOB_H
#define CSHIM_JOB_H

#include <sys/types.h>

#include "shim/core/learned.h"
#include "shim/report/ledger.h"
#include "shim/report/observed.h"
#include "shim/report/trace.h"

struct cshim_job {
    struct cshim_policy *policy;
    char policy_sha256[65];
    struct cshim_ledger ledger;
    int rank;  /* of this process */
    int ranks; /* without MPI: of the largest communicator whose rank 0 is in this process */
    uint32_t nodes;
    double started; /* cshim_seconds */
    double stopped; /* when the program came to the end of the job; without MPI it is not known */
    struct cshim_observed *observed; /* COMPSHIM=observe: calls are written down; else NULL */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE: events are kept; else NULL */
    const char *library;             /* for the report: "Open MPI 4.1.4" */

    /* The rest is for jobs in the list. */
    struct cshim_learned *learned; /* choices of an earlier job; NULL: this one learns itself */
    char learned_sha256[65];       /* of their text; empty without */
    uint64_t decisions;            /* number of decisions about classes, at rank 0; atomic */
    uint64_t host_waits;           /* how often the host waited for one; atomic */
    bool is_local; /* nobody collects the ledgers of all ranks: rank 0 counts for them */
    char *wanted;  /* the report, for which calls are timed and sampled: cshim_report_wanted */
    bool due;      /* something was counted since the last report; atomic */
    unsigned unreported; /* processes forked from this one whose calls no report has; at its end */
    struct cshim_job *next;
};

/* A policy that the ranks are to have. */
struct cshim_offer {
    char *text;
    size_t length;
    char source[CSHIM_PATH_MAX]; /* its name */
    char *learned;               /* choices of an earlier job; NULL: this one learns itself */
    size_t learned_length;
    bool observe; /* calls are written down and not compressed */
};

/* The process, as its files tell of it; set by cshim_process_start. */
struct cshim_process {
    const char *engine; /* "nccl" or "gloo" */
    char library[128];  /* what reports call the library: "NCCL 2.18.3" */
    bool is_beside;     /* another engine reports, too: the files of this one get its name */
    pid_t pid;          /* a forked child has another one, and writes nothing */
    /* Gives names to the threads of a trace's events; or NULL. */
    void (*name_threads)(struct cshim_trace_file *file, int rank);
};
extern struct cshim_process cshim_process;

/* Says which engine this is, before the first job. May be called again in a child of fork. */
void cshim_process_start(const char *engine, bool is_beside);

/* The job of an offered policy, made if there is none. Returns NULL after an error message if the
 * policy does not parse or there is no memory. Jobs are never freed. */
struct cshim_job *cshim_job_find(const struct cshim_offer *offer);

/* Loads the policy that this process would choose itself, and the choices that COMPSHIM_MACHINE
 * names. A wrong one ends the process. The caller frees the offer. */
void cshim_job_load(struct cshim_offer *offer);
void cshim_offer_free(struct cshim_offer *offer);

/* The job that counts the calls of communicators whose ranks have not agreed. NULL if there is no
 * policy for it. */
struct cshim_job *cshim_job_native(void);

/* Notes how many ranks and nodes a communicator of the job has. */
void cshim_job_grow(struct cshim_job *job, bool has_rank_0, int ranks, uint32_t nodes);

/* Notes that something was counted. */
static inline void cshim_job_touch(struct cshim_job *job)
{
    __atomic_store_n(&job->due, true, __ATOMIC_RELAXED);
}

/* Traces of all processes count from the earliest beginning that is known. Takes in when another
 * process began, in nanoseconds of the wall clock (0: it has no trace), and returns the
 * earliest. */
uint64_t cshim_job_origin(uint64_t began);

/* The files of this process. Each process keeps the events of its ranks and writes a trace of its
 * own, because nothing ends such a job on all ranks at once. When the process ends, what is due is
 * written by itself. */

/* Writes the trace if events were added since it was last written. */
void cshim_jobs_write_trace(void);
/* Writes the report of each job in which something was counted since the last one. */
void cshim_jobs_write_reports(void);

#endif
