/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text: aligned columns for readers, CSV for programs. */
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

void tool_table_add(struct tool_table *table, char **cells)
{
    size_t used = table->rows * table->columns;
    char **larger = realloc(table->cells, (used + table->columns) * sizeof *larger);
    if (larger == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
    table->cells = larger;
    memcpy(larger + used, cells, table->columns * sizeof *cells);
    table->rows++;
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
        size_t length = strlen(cell_text(table, row, column));
        width = length > width ? length : width;
    }
    return width;
}

static void print_row(const struct tool_table *table, size_t row, const size_t *widths, FILE *file)
{
    size_t last = table->columns; /* no blanks at the end of a line */
    while (last > 0 && cell_text(table, row, last - 1)[0] == '\0')
        last--;
    for (size_t column = 0; column < last; column++) {
        const char *text = cell_text(table, row, column);
        int width = (int)widths[column];
        fputs(column > 0 ? "  " : "", file);
        if (column >= table->numeric_from)
            fprintf(file, "%*s", width, text);
        else
            fprintf(file, "%-*s", column + 1 < last ? width : 0, text);
    }
    fputc('\n', file);
}

void tool_table_print(const struct tool_table *table, FILE *file)
{
    size_t *widths = tool_allocate(table->columns, sizeof *widths);
    size_t line = 0;
    for (size_t column = 0; column < table->columns; column++) {
        widths[column] = column_width(table, column);
        line += widths[column] + (column > 0 ? 2 : 0);
    }
    for (size_t row = 0; row < table->rows; row++) {
        print_row(table, row, widths, file);
        if (table->headings == 0 || row + 1 != table->headings)
            continue;
        for (size_t i = 0; i < line; i++)
            fputc('-', file);
        fputc('\n', file);
    }
    free(widths);
}

static void print_csv_cell(const char *text, FILE *file)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
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

void tool_table_free(struct tool_table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct tool_table){0};
}
