/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: values that the tools write, and the reports of runs (COMPSHIM_REPORT=FILE). */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Returns a text as a value, null if it is NULL; the caller releases it. If the text is not UTF-8,
 * as a path may be, bytes above 0x7f become '?'. */
json_t *tool_json_text(const char *text);
/* Returns a number as a value, null if it is not finite; the caller releases it. */
json_t *tool_json_number(double number);
/* Prints a value on stdout, and releases it. */
void tool_json_print(json_t *value);

#define TOOL_JSON_MESSAGE_MAX 512

/* Reads a file; the caller releases the value. Returns NULL, with a line in `message`, if it cannot
 * be read (then *unreadable is set) or is not JSON. */
json_t *tool_json_read(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX]);

/* Reads a report, as tool_json_read() does. Returns NULL also if the file is no report, or has
 * known members with values that compshim would not write. */
json_t *ledger_open(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX]);
/* Reads a report. If ledger_open() fails, exits with its message, and with TOOL_SYSTEM or
 * TOOL_NOT_SO. */
json_t *ledger_load(const char *path);

/* Returns a number of a report's totals; 0 if it is missing. */
double ledger_total(const json_t *report, const char *key);
/* Returns a number of any object; 0 if it is missing. */
double ledger_number(const json_t *object, const char *key);
/* Returns a text of an object, as long as the object lives; "" if it is missing. */
const char *ledger_text(const json_t *object, const char *key);

#endif
