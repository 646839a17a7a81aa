/* SPDX-License-Identifier: Apache-2.0 */
/* Where reports and traces are written, and the value of {jobid} in their names. */
#ifndef CSHIM_REPORT_FILE_H
#define CSHIM_REPORT_FILE_H

#include "shim/report/job.h"

/* Writes the name of a report or trace: the pattern with {rank} and {jobid} replaced. Returns false
 * if it does not fit. */
bool cshim_report_path(const char *pattern, int rank, char path[CSHIM_PATH_MAX]);

/* Writes a name of a report or trace with additions before the extension: "r.json" with ".gloo" is
 * "r.gloo.json". Does not replace {rank} and {jobid}. Returns false if it does not fit. */
bool cshim_report_name(const char *wanted, const char *additions, char name[CSHIM_PATH_MAX]);

#define CSHIM_JOB_MAX 256

/* The value of {jobid}. With MPI and gloo rank 0 makes it (the launcher's number, otherwise the
 * time and a random number), sends it to the others, and each process sets it; the first value that
 * a process sets stays. Before, and with NCCL, cshim_report_job returns the launcher's number, or
 * "0". Thread-safe. */
void cshim_report_make_job(char job[CSHIM_JOB_MAX]);
void cshim_report_set_job(const char job[CSHIM_JOB_MAX]);
const char *cshim_report_job(void);

/* Returns the report that the environment or, without it, the policy sets: "summary" (only the
 * table), a file name, or NULL for no report. A policy found in the working folder is not trusted:
 * "summary" replaces its file name, with a warning if `speaks`. Called at the start, because the
 * program may change its environment. The caller frees the text. */
char *cshim_report_wanted(const struct cshim_policy *policy, bool speaks);

/* Writes the job's table to standard error, and the JSON to a file if job->wanted, which is not
 * NULL, names one; `additions` change that name (cshim_report_name). Logs an error if the file
 * cannot be written. Replaces an existing file only if it belongs to the user and is empty or
 * a report, and atomically if possible (shim/core/output.h). */
void cshim_report_write(const struct cshim_job *job, const char *additions);

/* Opens a trace's file and begins it. Returns false, after logging the error, if that fails. */
bool cshim_trace_open(struct cshim_trace_file *file, const char *path);
/* Ends the file and closes it; logs errors. Does nothing if cshim_trace_open() failed. */
void cshim_trace_close(struct cshim_trace_file *file, const char *path);

#endif
