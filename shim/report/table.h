/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a job as the table that is printed at its end. */
#ifndef CSHIM_REPORT_TABLE_H
#define CSHIM_REPORT_TABLE_H

#include <stdio.h>

#include "shim/report/job.h"

/* Writes the table that is printed at the end of a run. The observed calls must be sorted. */
void cshim_report_table(FILE *stream, const struct cshim_job *job);

/* Returns true if a row's codec and its rule's gather_codec lose nothing: then the sampled error is
 * only the rounding of sums in the elements' type. */
bool cshim_report_is_exact(const struct cshim_row_key *key);

#endif
