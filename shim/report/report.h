/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a job as a table and as JSON. Programs read the JSON: the names of its
 * fields do not change. */
#ifndef CSHIM_REPORT_H
#define CSHIM_REPORT_H

#include <stdio.h>

#include "shim/report/job.h"

/* Writes the table that is printed at the end of a run. The observed calls must be sorted. */
void cshim_report_table(FILE *stream, const struct cshim_job *job);

/* Returns true if the codecs of a row's calls lose nothing: then the sampled error is only the
 * rounding of sums in the elements' type. */
bool cshim_report_is_exact(const struct cshim_row_key *key);

/* Writes the report as one JSON object. */
void cshim_report_json(FILE *stream, const struct cshim_job *job);

/* Writes a text as a JSON string. Replaces bytes that are not UTF-8, which a file name may have, by
 * '?'.
 */
void cshim_report_string(FILE *stream, const char *text);

/* Writes the name of a report or trace: the pattern with {rank} and {jobid} replaced. Returns false
 * if it does not fit. */
bool cshim_report_path(const char *pattern, int rank, char path[CSHIM_PATH_MAX]);

#define CSHIM_JOB_MAX 256

/* The value of {jobid}. One process of a job makes it (the launcher's number, otherwise the time
 * and a random number) and sends it to the others. Each process sets it before other threads may
 * read it. Until then cshim_report_job returns the launcher's number, or "0". */
void cshim_report_make_job(char job[CSHIM_JOB_MAX]);
void cshim_report_set_job(const char job[CSHIM_JOB_MAX]);
const char *cshim_report_job(void);

/* Returns the report that the environment or, without it, the policy sets: "summary" (only the
 * table), a file name, or NULL for no report. Ignores the file name of a policy found in the
 * working folder, which is not trusted; if `speaks`, logs a warning about it. */
const char *cshim_report_wanted(const struct cshim_policy *policy, bool speaks);

/* Writes the table to standard error, and the JSON to a file if one is wanted. Logs an error if the
 * file cannot be written. Replaces an existing file only if it is the user's own report, and
 * atomically (shim/core/output.h). */
void cshim_report_write(const char *wanted, const struct cshim_job *job);

#endif
