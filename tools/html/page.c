/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/html/page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "version.h"

static const char template[] =
#include "page_html.h"
    ;

json_t *page_text(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    char *ascii = tool_copy(text);
    for (char *at = ascii; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    string = json_string(ascii);
    free(ascii);
    return string;
}

void page_start(struct page *page, json_t *data)
{
    *page = (struct page){.data = data};
    json_object_set_new(data, "tables", json_object());
    page->text = open_memstream(&page->buffer, &page->length);
    if (page->text == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
}

void page_add_table(struct page *page, const char *name, const char *title,
                    const struct tool_table *table)
{
    if (table->rows <= table->headings)
        return;
    json_t *rows = json_array();
    for (size_t row = 0; row < table->rows; row++) {
        json_t *cells = json_array();
        for (size_t column = 0; column < table->columns; column++) {
            const char *text = table->cells[row * table->columns + column];
            json_array_append_new(cells, page_text(text != NULL ? text : ""));
        }
        json_array_append_new(rows, cells);
    }
    json_t *object = json_pack("{s:o, s:I, s:I, s:o}", "title", page_text(title), "headings",
                               (json_int_t)table->headings, "numeric_from",
                               (json_int_t)table->numeric_from, "rows", rows);
    json_object_set_new(json_object_get(page->data, "tables"), name, object);
    tool_table_print_titled(table, title, false, page->text);
}

/* Writes text for an element or a quoted attribute. HTML allows no control characters but line
 * ends, not even escaped ones. */
static void write_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("&<>\"'", *text) != NULL)
            fprintf(file, "&#%d;", *text);
        else
            fputc(iscntrl((unsigned char)*text) && *text != '\n' ? ' ' : *text, file);
    }
}

/* Writes JSON for a script element. Neither "</script>" nor "<!--" can be in it: '<' occurs only
 * in strings, where its escape means the same. */
static void write_json(FILE *file, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (text == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '<')
            fputs("\\u003c", file);
        else
            fputc(*at, file);
    }
    free(text);
}

void page_finish(struct page *page, const char *title, FILE *file)
{
    fclose(page->text);
    const char *rest = template;
    for (const char *mark = NULL; (mark = strstr(rest, "{{")) != NULL;) {
        fwrite(rest, 1, (size_t)(mark - rest), file);
        if (strncmp(mark, "{{title}}", strlen("{{title}}")) == 0)
            write_text(file, title);
        else if (strncmp(mark, "{{text}}", strlen("{{text}}")) == 0)
            write_text(file, page->buffer);
        else if (strncmp(mark, "{{version}}", strlen("{{version}}")) == 0)
            write_text(file, CSHIM_VERSION);
        else
            write_json(file, page->data);
        rest = strstr(mark, "}}") + strlen("}}");
    }
    fputs(rest, file);
    json_decref(page->data);
    free(page->buffer);
}
