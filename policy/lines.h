/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of policies, and of files with learned choices, and splits it into lines without
 * comments and surrounding blanks. */
#ifndef CSHIM_LINES_H
#define CSHIM_LINES_H

#include <stddef.h>
#include <stdio.h>

/* Reads a file of up to `limit` bytes, and closes it. Returns its text, which the caller frees,
 * with a zero byte after it. Returns NULL with errno if that fails: EFBIG for a longer file, ENOMEM
 * without memory. */
char *cshim_lines_read(FILE *file, size_t limit, size_t *length);

/* Returns the text after its byte order mark, if it has one. */
const char *cshim_lines_begin(const char *text, const char *end);

/* Returns the next line, without its comment and surrounding blanks, or NULL at the end of the
 * text. A comment begins with ; or #, at the beginning of the line or after a blank. Moves *next
 * after the line. */
const char *cshim_lines_next(const char **next, const char *end, size_t *length);

#endif
