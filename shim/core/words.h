/* SPDX-License-Identifier: Apache-2.0 */
/* Writes numbers and reasons in words, for the tables of the library and the tools.
 *
 * Pure: reads nothing but its arguments, allocates nothing. */
#ifndef CSHIM_WORDS_H
#define CSHIM_WORDS_H

#include "shim/core/plan.h"

/* Size of the buffer of a text that the functions below write, in bytes. */
#define CSHIM_WORDS_MAX 32

/* Maximum columns of a line, for terminals. */
#define CSHIM_LINE_WIDTH 80

/* Writes "1.5 MiB", and returns the text: at most 8 characters. */
const char *cshim_bytes_words(double bytes, char text[CSHIM_WORDS_MAX]);

/* Writes "12.3 ms", and returns the text: at most 8 characters below 1e5 s. */
const char *cshim_seconds_words(double seconds, char text[CSHIM_WORDS_MAX]);

/* Writes by which factor `wire` is less or more than `native`: "4.0x less", "1.4x more", or "about
 * the same" if both are within 5 %. Returns the text. */
const char *cshim_factor_words(double native, double wire, char text[CSHIM_WORDS_MAX]);

/* Returns a static string that says in words why calls are passed through. */
const char *cshim_reason_words(enum cshim_reason reason);

#endif
