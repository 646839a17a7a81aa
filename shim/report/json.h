/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a job as JSON. Programs read it: the names of its fields do not change. */
#ifndef CSHIM_REPORT_JSON_H
#define CSHIM_REPORT_JSON_H

#include <stdio.h>

#include "shim/report/job.h"

/* Writes the report as one JSON object. */
void cshim_report_json(FILE *stream, const struct cshim_job *job);

/* Writes a text as a JSON string. Replaces bytes that are not UTF-8, which a file name may have, by
 * '?'.
 */
void cshim_report_string(FILE *stream, const char *text);

#endif
