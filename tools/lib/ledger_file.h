/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON report that a run has written (COMPSHIM_REPORT=FILE). */
#ifndef TOOL_LEDGER_FILE_H
#define TOOL_LEDGER_FILE_H

#include <jansson.h>
#include <stdbool.h>

/* A file that was found to be a report. The functions below read it. */
struct ledger_file {
    const char *path; /* the caller's string */
    json_t *root;
};

#define LEDGER_MESSAGE_MAX 512

/* Reads a report. Returns false, with one line in message, if the file cannot be read (then
 * *unreadable is set) or is no report. On success the caller releases it with ledger_close. */
bool ledger_open(const char *path, struct ledger_file *ledger, bool *unreadable,
                 char message[LEDGER_MESSAGE_MAX]);
void ledger_close(struct ledger_file *ledger);

/* A number of the report's totals; 0 if it is not there. */
double ledger_total(const struct ledger_file *ledger, const char *key);
/* A number of any object; 0 if it is not there. */
double ledger_number(const json_t *object, const char *key);
/* The sampled error of a row, negative if none was taken. */
double ledger_error(const json_t *row);
/* A text of an object; "" if it is not there. Valid as long as the object. */
const char *ledger_text(const json_t *object, const char *key);

#endif
