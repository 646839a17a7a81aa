/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text: aligned columns or Markdown for readers, CSV for programs. */
#include "tools/lib/tool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/words.h"

/* Returns the number of characters in a UTF-8 text. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void tool_table_add(struct tool_table *table, char **cells)
{
    table->cells = tool_append(table->cells, &table->rows, table->columns * sizeof *cells, cells);
}

struct tool_table tool_table_of(const char *headings, size_t numeric_from)
{
    struct tool_table table = {.numeric_from = numeric_from, .headings = 1};
    char **cells = tool_split(headings, &table.columns);
    char *const split = cells[0];
    for (size_t i = 0; i < table.columns; i++)
        cells[i] = tool_copy(cells[i]);
    tool_table_add(&table, cells);
    free(split);
    free(cells);
    return table;
}

static const char *cell_text(const struct tool_table *table, size_t row, size_t column)
{
    const char *text = table->cells[row * table->columns + column];
    return text != NULL ? text : "";
}

static size_t column_width(const struct tool_table *table, size_t column)
{
    size_t width = 0;
    for (size_t row = 0; row < table->rows; row++) {
        size_t length = text_width(cell_text(table, row, column));
        width = length > width ? length : width;
    }
    return width;
}

/* Prints a cell without the control characters that texts of other programs may contain. */
static void print_cell(const char *text, size_t width, bool right, FILE *file)
{
    size_t used = text_width(text);
    int blanks = width > used ? (int)(width - used) : 0;
    fprintf(file, "%*s", right ? blanks : 0, "");
    for (; *text != '\0'; text++)
        fputc(iscntrl((unsigned char)*text) ? '?' : *text, file);
    fprintf(file, "%*s", right ? 0 : blanks, "");
}

/* A part of a table: the columns with which every part begins, and those in [from, to). */
struct part {
    size_t keys;
    size_t from;
    size_t to;
    const size_t *widths; /* widths of all columns */
};

/* Returns the text of a cell. An empty heading, except in the last row of headings, has the text of
 * the nearest one to its left that is not empty, if that is in column `least` or right of it. */
static const char *shared_text(const struct tool_table *table, size_t row, size_t column,
                               size_t least)
{
    while (row + 1 < table->headings && column > least && *cell_text(table, row, column) == '\0')
        column--;
    return cell_text(table, row, column);
}

/* Returns the text of a part's cell. If a part begins within columns that share a heading, it
 * repeats the heading. */
static const char *part_text(const struct tool_table *table, const struct part *part, size_t row,
                             size_t column)
{
    return shared_text(table, row, column, column == part->from ? part->keys : column);
}

static void print_row(const struct tool_table *table, const struct part *part, size_t row,
                      FILE *file)
{
    size_t last = part->to; /* last cell that is not empty: no line ends with blanks */
    fputs(table->prefix != NULL ? table->prefix : "", file);
    while (last > part->from && *part_text(table, part, row, last - 1) == '\0')
        last--;
    for (size_t column = 0; column < last;
         column = column + 1 == part->keys ? part->from : column + 1) {
        bool right = column >= table->numeric_from;
        fputs(column > 0 ? "  " : "", file);
        print_cell(part_text(table, part, row, column),
                   right || column + 1 < last ? part->widths[column] : 0, right, file);
    }
    fputc('\n', file);
}

/* Prints a part. `line`: length of the line below its headings. */
static void print_part(const struct tool_table *table, const struct part *part, size_t line,
                       FILE *file)
{
    for (size_t row = 0; row < table->rows; row++) {
        print_row(table, part, row, file);
        if (table->headings == 0 || row + 1 != table->headings)
            continue;
        fputs(table->prefix != NULL ? table->prefix : "", file);
        for (size_t i = 0; i < line; i++)
            fputc('-', file);
        fputc('\n', file);
    }
}

/* Returns the first of the columns that share the column's heading. */
static size_t group_of(const struct tool_table *table, size_t column)
{
    while (table->headings > 1 && column > 0 && column < table->columns &&
           *cell_text(table, 0, column) == '\0')
        column--;
    return column;
}

void tool_table_print(const struct tool_table *table, FILE *file)
{
    const size_t room = CSHIM_LINE_WIDTH - (table->prefix != NULL ? strlen(table->prefix) : 0);
    const size_t keys = table->keys > 0 ? table->keys : 1;
    size_t *widths = tool_allocate(table->columns, sizeof *widths);
    size_t key_width = 0;
    for (size_t column = 0; column < table->columns; column++) {
        widths[column] = column_width(table, column);
        if (column < keys)
            key_width += widths[column] + (column > 0 ? 2 : 0);
    }
    for (size_t row = 0; table->columns == 2 && table->headings == 0 && row < table->rows; row++)
        tool_print(file, widths[0] + 2, "%-*s  %s\n", (int)widths[0], cell_text(table, row, 0),
                   cell_text(table, row, 1));
    struct part part = {.keys = keys, .from = keys, .to = keys, .widths = widths};
    while (part.to < table->columns && (table->columns != 2 || table->headings > 0)) {
        size_t line = key_width;
        part.from = part.to;
        while (part.to < table->columns &&
               (part.to == part.from || line + 2 + widths[part.to] <= room))
            line += 2 + widths[part.to++];
        const size_t group = group_of(table, part.to);
        while (group > part.from && part.to > group)
            line -= 2 + widths[--part.to];
        fputs(part.from > keys ? "\n" : "", file);
        print_part(table, &part, line, file);
    }
    free(widths);
}

static void print_csv_cell(const char *text, FILE *file)
{
    const char *quote = strpbrk(text, ",\"\r\n") != NULL ? "\"" : "";
    fputs(quote, file);
    for (; *text != '\0'; text++) {
        fputs(*text == '"' ? quote : "", file);
        fputc(*text, file);
    }
    fputs(quote, file);
}

void tool_table_print_csv(const struct tool_table *table, FILE *file)
{
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t column = 0; column < table->columns; column++) {
            fputs(column > 0 ? "," : "", file);
            print_csv_cell(cell_text(table, row, column), file);
        }
        fputc('\n', file);
    }
}

void tool_print_markdown(const char *text, FILE *file)
{
    for (; *text != '\0'; text++) {
        if (strchr("|\\`*<[", *text) != NULL)
            fputc('\\', file);
        fputc(iscntrl((unsigned char)*text) ? ' ' : *text, file);
    }
}

/* Prints the headings as one line, because Markdown has only one. Joins headings above each other
 * by a comma; an empty one, except in the last row, has the text of the one to its left. */
static void print_markdown_headings(const struct tool_table *table, FILE *file)
{
    for (size_t column = 0; column < table->columns; column++) {
        const char *separator = " ";
        fputs("|", file);
        for (size_t row = 0; row < table->headings; row++) {
            const char *text = shared_text(table, row, column, 0);
            fputs(*text != '\0' ? separator : "", file);
            tool_print_markdown(text, file);
            separator = *text != '\0' ? ", " : separator;
        }
        fputs(" ", file);
    }
    fputs("|\n", file);
    for (size_t column = 0; column < table->columns; column++)
        fputs(column >= table->numeric_from ? "|---:" : "|---", file);
    fputs("|\n", file);
}

static void print_markdown(const struct tool_table *table, FILE *file)
{
    print_markdown_headings(table, file);
    for (size_t row = table->headings; row < table->rows; row++) {
        for (size_t column = 0; column < table->columns; column++) {
            fputs("| ", file);
            tool_print_markdown(cell_text(table, row, column), file);
            fputs(" ", file);
        }
        fputs("|\n", file);
    }
}

void tool_table_print_titled(const struct tool_table *table, bool markdown, FILE *file)
{
    if (table->rows <= table->headings)
        return;
    if (markdown) {
        fprintf(file, "\n%s:\n\n", table->title);
        print_markdown(table, file);
        return;
    }
    tool_print(file, 0, "\n%s\n", table->title);
    tool_table_print(table, file);
}

void tool_table_free(struct tool_table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct tool_table){0};
}
