/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: the values that the tools write, and the reports that runs have written
 * (COMPSHIM_REPORT=FILE). */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* A text as a value, null if it is NULL; the caller releases it. A byte above 0x7f becomes '?' if
 * the text is not UTF-8, as a path may be. */
json_t *tool_json_text(const char *text);
/* A number as a value, null if it is not finite; the caller releases it. */
json_t *tool_json_number(double number);
/* Prints a value on stdout, and releases it. */
void tool_json_print(json_t *value);

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
/* Does the same, but exits with the message: TOOL_SYSTEM or TOOL_NOT_SO. */
struct ledger_file ledger_load(const char *path);
void ledger_close(struct ledger_file *ledger);

/* A number of the report's totals; 0 if it is not there. */
double ledger_total(const struct ledger_file *ledger, const char *key);
/* A number of any object; 0 if it is not there. */
double ledger_number(const json_t *object, const char *key);
/* A text of an object; "" if it is not there. Valid as long as the object. */
const char *ledger_text(const json_t *object, const char *key);

#endif
