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

#define TOOL_JSON_MESSAGE_MAX 512

/* Reads a file, whose value the caller releases. Returns NULL, with one line in message, if it
 * cannot be read (then *unreadable is set) or is not JSON. */
json_t *tool_json_read(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX]);

/* The same of a report; NULL also if the file is none, or has members of other types. */
json_t *ledger_open(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX]);
/* Does the same, but exits with the message: TOOL_SYSTEM or TOOL_NOT_SO. */
json_t *ledger_load(const char *path);

/* A number of a report's totals; 0 if it is not there. */
double ledger_total(const json_t *report, const char *key);
/* A number of any object; 0 if it is not there. */
double ledger_number(const json_t *object, const char *key);
/* A text of an object; "" if it is not there. Valid as long as the object. */
const char *ledger_text(const json_t *object, const char *key);

#endif
