/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as a table and as JSON; programs read the JSON, so its names stay. */
#ifndef CSHIM_REPORT_H
#define CSHIM_REPORT_H

#include <stdio.h>

#include "shim/report/ledger.h"
#include "shim/report/observed.h"

/* What a report says beside the ledger. */
struct cshim_report_facts {
    const char *library; /* "Open MPI 4.1.4" */
    uint32_t ranks;
    uint32_t nodes;
    const char *policy_source;
    const char *policy_sha256;
    double wall_seconds;                   /* from MPI_Init to MPI_Finalize */
    const struct cshim_observed *observed; /* sorted; NULL: the job compressed */
};

/* Writes the table that ends a run, as few lines as it takes. */
void cshim_report_table(FILE *stream, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts);

/* Writes the report as one JSON object. */
void cshim_report_json(FILE *stream, const struct cshim_ledger *ledger,
                       const struct cshim_report_facts *facts);

/* Writes a text as a JSON string. JSON is UTF-8, a file's name may be any bytes: those that are not
 * UTF-8 become '?'. */
void cshim_report_string(FILE *stream, const char *text);

/* Puts a report's file name together: {rank} and {jobid} are replaced. Returns false if the result
 * does not fit. */
bool cshim_report_path(const char *pattern, int rank, const char *jobid, char *path, size_t size);

#define CSHIM_JOB_MAX 256

/* file.c: what stands for {jobid}. make names a job: by its launcher's number, else by the
 * time and by chance. That is for one process of a job, which tells the others; each then sets it,
 * before any other thread may ask. Where none was set job is the launcher's number, or "0". */
void cshim_report_make_job(char job[CSHIM_JOB_MAX]);
void cshim_report_set_job(const char job[CSHIM_JOB_MAX]);
const char *cshim_report_job(void);

/* What a job reports by its environment and policy: "summary" or a file's name; NULL
 * for nothing. */
const char *cshim_report_wanted(const struct cshim_policy *policy);

/* Writes the table to standard error, and the file if one is wanted. A file that cannot be written
 * is an error message and nothing else. */
void cshim_report_write(const char *wanted, int rank, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts);

#endif
