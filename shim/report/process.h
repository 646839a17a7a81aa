/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs and files of a process that uses NCCL or gloo. All communicators whose ranks have agreed
 * on the same policy text, the same learned choices, and on recording (COMPSHIM=observe) or not,
 * belong to one job. The process writes its own files when it ends by exit, with NCCL also when its
 * last communicator ends. The functions are thread-safe, except cshim_process_start. */
#ifndef CSHIM_PROCESS_H
#define CSHIM_PROCESS_H

#include <sys/types.h>

#include "shim/report/job.h"

/* Properties of the process, for its files. cshim_process_start sets engine, is_beside and pid; the
 * engine sets the others. */
struct cshim_process {
    const char *engine; /* "nccl" or "gloo" */
    char library[128];  /* name of the library in reports, as "NCCL 2.18.3" */
    bool is_beside;     /* another engine was opened before: file names get this engine's name */
    pid_t pid;          /* process that called cshim_process_start(): only this one writes files */
    /* Writes the names of the threads to a trace file; or NULL. */
    void (*name_threads)(struct cshim_trace_file *file, int rank);
};
extern struct cshim_process cshim_process;

/* Sets the engine, before the first job. May be called again in a forked child. */
void cshim_process_start(const char *engine, bool is_beside);

/* Returns the job of an offer; makes it if there is none. Returns NULL after an error message if
 * policy or choices do not parse or there is no memory. Jobs are never freed. */
struct cshim_job *cshim_job_find(const struct cshim_offer *offer);

/* Copies the first offer that this process has loaded or received; if there is none, loads its own.
 * The caller frees it. Ends the process if it is invalid. Logs warnings of loading, if the launcher
 * numbers this process 0 or not at all. */
void cshim_job_load(struct cshim_offer *offer);

/* Returns the job that counts the calls of communicators whose ranks have not agreed: the first
 * one, or a new one by cshim_job_load()'s offer; NULL if that is invalid, or without memory. */
struct cshim_job *cshim_job_native(void);

/* Raises the job's numbers of ranks and nodes to those of a communicator: for compshim top in every
 * process, for the report if this process has the communicator's rank 0. */
void cshim_job_grow(struct cshim_job *job, bool has_rank_0, int ranks, uint32_t nodes);

/* Sets time zero of this process's traces (nanoseconds of the wall clock) to that of another
 * process, `other_origin`, if this is earlier or this process has none. `other_origin` is 0 if the
 * other process has no trace. Returns this process's time zero; 0: none. */
uint64_t cshim_job_origin(uint64_t other_origin);

/* Files of this process. Each process keeps the events of its ranks and writes its own trace,
 * because a job without MPI does not end on all ranks at once. Files that are due are written when
 * the process ends by exit. */

/* Writes the trace if events were added since it was last written. */
void cshim_jobs_write_trace(void);
/* Writes the report of each job in which calls were counted since the last report. */
void cshim_jobs_write_reports(void);

#endif
