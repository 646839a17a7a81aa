/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the text of policies, and of files with learned choices, into lines without comments and
 * surrounding blanks. */
#ifndef CSHIM_LINES_H
#define CSHIM_LINES_H

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Returns the text after its byte order mark, if it has one. */
static inline const char *cshim_lines_begin(const char *text, const char *end)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    return end - text >= 3 && memcmp(text, byte_order_mark, 3) == 0 ? text + 3 : text;
}

/* Returns the next line, without its comment and surrounding blanks, or NULL at the end of the
 * text. A comment begins with ; or #, at the beginning of the line or after a blank. Moves *next
 * after the line. */
static inline const char *cshim_lines_next(const char **next, const char *end, size_t *length)
{
    const char *line = *next;
    if (line == end)
        return NULL;
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *stop = newline != NULL ? newline : end;
    *next = newline != NULL ? newline + 1 : end;
    while (line < stop && isspace((unsigned char)*line))
        line++;
    for (const char *at = line; at < stop; at++)
        if ((*at == ';' || *at == '#') && (at == line || isspace((unsigned char)at[-1])))
            stop = at;
    while (stop > line && isspace((unsigned char)stop[-1]))
        stop--;
    *length = (size_t)(stop - line);
    return line;
}

#endif
