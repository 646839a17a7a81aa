/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/html/page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/json.h"
#include "version.h"

static const char template[] =
#include "page_html.h"
    ;

static json_t *table_json(const struct tool_table *table)
{
    json_t *rows = json_array();
    for (size_t row = 0; row < table->rows; row++) {
        json_t *cells = json_array();
        for (size_t column = 0; column < table->columns; column++) {
            const char *text = table->cells[row * table->columns + column];
            json_array_append_new(cells, tool_json_text(text != NULL ? text : ""));
        }
        json_array_append_new(rows, cells);
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "title", tool_json_text(table->title), "headings",
                     (json_int_t)table->headings, "numeric_from", (json_int_t)table->numeric_from,
                     "rows", rows);
}

/* Adds the tables to the data. Returns the note and the tables as text, which the caller frees. */
static char *add_tables(json_t *data, const char *note, const struct tool_table *tables,
                        size_t count)
{
    char *text = NULL;
    size_t length = 0;
    json_t *by_name = json_object();
    FILE *file = open_memstream(&text, &length);
    if (file == NULL)
        errx(TOOL_SYSTEM, "out of memory");
    fputs(note, file);
    for (const struct tool_table *table = tables; table < tables + count; table++) {
        if (table->rows > table->headings)
            json_object_set_new(by_name, table->name, table_json(table));
        tool_table_print_titled(table, false, file);
    }
    json_object_set_new(data, "tables", by_name);
    fclose(file);
    return text;
}

/* Writes text for an element or a quoted attribute. HTML forbids most control characters, even
 * escaped ones: all but line ends become blanks. */
static void write_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        if (strchr("&<>\"'", *text) != NULL)
            fprintf(file, "&#%d;", *text);
        else
            fputc(iscntrl((unsigned char)*text) && *text != '\n' ? ' ' : *text, file);
}

/* Writes JSON for a script element. Escapes '<', which occurs only in strings, so that neither
 * "</script>" nor "<!--" can occur. */
static void write_json(FILE *file, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (text == NULL)
        errx(TOOL_SYSTEM, "out of memory");
    for (const char *at = text; *at != '\0'; at++)
        if (*at == '<')
            fputs("\\u003c", file);
        else
            fputc(*at, file);
    free(text);
}

void page_write(const char *title, json_t *data, const char *note, const struct tool_table *tables,
                size_t count, FILE *file)
{
    char *text = add_tables(data, note, tables, count);
    const char *rest = template;
    for (const char *mark = NULL; (mark = strstr(rest, "{{")) != NULL;) {
        fwrite(rest, 1, (size_t)(mark - rest), file);
        if (strncmp(mark, "{{title}}", strlen("{{title}}")) == 0)
            write_text(file, title);
        else if (strncmp(mark, "{{text}}", strlen("{{text}}")) == 0)
            write_text(file, text);
        else if (strncmp(mark, "{{version}}", strlen("{{version}}")) == 0)
            write_text(file, CSHIM_VERSION);
        else
            write_json(file, data);
        rest = strstr(mark, "}}") + strlen("}}");
    }
    fputs(rest, file);
    json_decref(data);
    free(text);
}
