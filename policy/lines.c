/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

char *cshim_lines_read(FILE *file, size_t limit, size_t *length)
{
    char *text = malloc(limit + 2);
    *length = text != NULL ? fread(text, 1, limit + 1, file) : 0;
    const bool is_read = text != NULL && ferror(file) == 0;
    const int problem = text == NULL ? ENOMEM : is_read ? EFBIG : errno;
    fclose(file);
    if (is_read && *length <= limit) {
        text[*length] = '\0';
        return text;
    }
    free(text);
    errno = problem;
    return NULL;
}

const char *cshim_lines_begin(const char *text, const char *end)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    return end - text >= 3 && memcmp(text, byte_order_mark, 3) == 0 ? text + 3 : text;
}

const char *cshim_lines_next(const char **next, const char *end, size_t *length)
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
