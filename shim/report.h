/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger as a table and as JSON; programs read the JSON, so its names stay. */
#ifndef CSHIM_REPORT_H
#define CSHIM_REPORT_H

#include <stdio.h>

#include "shim/ledger.h"

/* What a report says beside the ledger. */
struct cshim_report_facts {
    const char *library; /* "Open MPI 4.1.4" */
    uint32_t ranks;
    uint32_t nodes;
    const char *policy_source;
    const char *policy_sha256;
    double wall_seconds; /* from MPI_Init to MPI_Finalize */
};

/* Writes the table that ends a run, as few lines as it takes. */
void cshim_report_table(FILE *stream, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts);

/* Writes the report as one JSON object. */
void cshim_report_json(FILE *stream, const struct cshim_ledger *ledger,
                       const struct cshim_report_facts *facts);

/* Puts a report's file name together: {rank} and {jobid} are replaced. Returns false if the result
 * does not fit. */
bool cshim_report_path(const char *pattern, int rank, const char *jobid, char *path, size_t size);

#endif
