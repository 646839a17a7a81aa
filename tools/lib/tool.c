/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, memory, files and texts. */
#include "tools/lib/tool.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/environment.h"
#include "shim/core/output.h"
#include "shim/core/words.h"

void *tool_allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL)
        errx(TOOL_SYSTEM, "out of memory");
    return memory;
}

void *tool_append(void *array, size_t *count, size_t size, const void *element)
{
    char *larger = realloc(array, (*count + 1) * size);
    if (larger == NULL)
        errx(TOOL_SYSTEM, "out of memory");
    memcpy(larger + (*count)++ * size, element, size);
    return larger;
}

char *tool_copy(const char *text)
{
    return tool_format("%s", text);
}

__attribute__((format(printf, 1, 0))) static char *format_all(const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        errx(TOOL_SYSTEM, "out of memory");
    return text;
}

char *tool_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_all(format, arguments);
    va_end(arguments);
    return text;
}

char *tool_replace(const char *text, const char *from, const char *to)
{
    char *result = tool_copy("");
    for (const char *found = NULL; (found = strstr(text, from)) != NULL;
         text = found + strlen(from))
        result = tool_format("%s%.*s%s", result, (int)(found - text), text, to);
    return tool_format("%s%s", result, text);
}

void tool_spare_file(const char *option, const char *path, const char *mark)
{
    if (path != NULL && cshim_is_foreign(path, mark))
        errx(TOOL_NOT_SO, "%s is not replaced: it is not what %s writes; name another file", path,
             option);
}

void tool_check_writable(const char *option, const char *path, const char *mark)
{
    struct stat facts;
    tool_spare_file(option, path, mark);
    if (path == NULL || (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)))
        return; /* a pipe's reader would get the end of the file if this opened and closed it */
    const bool is_new = lstat(path, &facts) != 0;
    FILE *file = fopen(path, "ae");
    if (file == NULL || fclose(file) != 0)
        err(TOOL_SYSTEM, "%s", path);
    if (is_new)
        unlink(path);
}

static void check_output(const char *path, const char *problem)
{
    if (problem != NULL)
        errx(TOOL_SYSTEM, "cannot write %s: %s", path, problem);
}

void tool_open_output(struct cshim_output *output, const char *path)
{
    check_output(path, cshim_output_open(output, path, NULL));
}

void tool_close_output(struct cshim_output *output)
{
    const char *path = output->path;
    check_output(path, cshim_output_close(output));
}

bool tool_is_regular(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

int tool_finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    warn("cannot write the output");
    return TOOL_SYSTEM;
}

char **tool_split(const char *list, size_t *count)
{
    char **items = NULL;
    char *rest = tool_copy(list);
    *count = 0;
    for (char *item = NULL; (item = strsep(&rest, ",")) != NULL;)
        items = tool_append(items, count, sizeof item, &item);
    return items;
}

bool tool_is_listed(const char *list, char separator, const char *word, size_t length)
{
    const char ends[] = {separator, '=', '\0'};
    for (; list != NULL; list = strchr(list, separator)) {
        list += *list == separator;
        if (strcspn(list, ends) == length && strncmp(list, word, length) == 0)
            return true;
    }
    return false;
}

bool tool_is_program(const char *path, const char *names)
{
    return tool_is_listed(names, ' ', basename(path), strlen(basename(path)));
}

bool tool_starts_with(const char *text, const char *prefixes)
{
    while (*prefixes != '\0') {
        const size_t length = strcspn(prefixes, " ");
        if (strncmp(text, prefixes, length) == 0)
            return true;
        prefixes += length;
        prefixes += strspn(prefixes, " ");
    }
    return false;
}

char *tool_printable(char *text)
{
    for (char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    return text;
}

char *tool_bytes(double bytes)
{
    char text[CSHIM_WORDS_MAX];
    return tool_copy(cshim_bytes_words(bytes, text));
}

char *tool_seconds(double seconds)
{
    char text[CSHIM_WORDS_MAX];
    return tool_copy(cshim_seconds_words(seconds, text));
}

void tool_print(FILE *file, size_t indent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_all(format, arguments);
    va_end(arguments);
    size_t column = 0;
    for (char *at = text; *at != '\0';) {
        const size_t blanks = strspn(at, " "), word = strcspn(at + blanks, " \n");
        if (column > indent && word > 0 && column + blanks + word > CSHIM_LINE_WIDTH)
            column = (size_t)fprintf(file, "\n%*s", (int)indent, "") - 1;
        else if (word > 0) /* no line ends with blanks */
            column += (size_t)fprintf(file, "%*s", (int)blanks, "");
        column += (size_t)fprintf(file, "%.*s", (int)word, at + blanks);
        at += blanks + word;
        if (*at == '\n') {
            fputc(*at++, file);
            column = 0;
        }
    }
    free(text);
}

char *tool_plural(uint64_t count, const char *noun)
{
    return tool_format("%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

void tool_set_variable(const char *name, const char *value, bool is_told)
{
    if (setenv(name, value, 1) != 0)
        err(TOOL_SYSTEM, "cannot set %s", name);
    if (is_told)
        warnx("%s=%s", name, value);
}
