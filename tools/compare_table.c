/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a comparison: what it ran on, time and accuracy, bytes. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/tool.h"

static void print_environment(const struct compare_plan *plan, const json_t *environment)
{
    struct tool_table table = {.columns = 2, .numeric_from = 2};
    const char *name = NULL;
    json_t *value = NULL;
    printf("%s\n\nEnvironment\n", plan->title);
    json_object_foreach((json_t *)environment, name, value)
    {
        char *cells[] = {tool_copy(name), tool_copy(json_string_value(value))};
        tool_table_add(&table, cells);
    }
    tool_table_print(&table, stdout);
    tool_table_free(&table);
}

/* Starts a table with two lines of headings: the rank counts, and under each of them its columns.
 */
static struct tool_table start_table(const struct compare_plan *plan, const char *const *names,
                                     size_t per_rank)
{
    struct tool_table table = {
        .columns = 1 + plan->rank_count * per_rank, .numeric_from = 1, .headings = 2};
    char **above = tool_allocate(table.columns, sizeof *above);
    char **below = tool_allocate(table.columns, sizeof *below);
    below[0] = tool_copy("mode");
    for (size_t rank = 0; rank < plan->rank_count; rank++) {
        above[1 + rank * per_rank] = tool_plural(plan->ranks[rank], "rank");
        for (size_t i = 0; i < per_rank; i++)
            below[1 + rank * per_rank + i] = tool_copy(names[i]);
    }
    tool_table_add(&table, above);
    tool_table_add(&table, below);
    free(above);
    free(below);
    return table;
}

static char *figure(const char *format, double value)
{
    char text[64];
    if (value < 0)
        return tool_copy("-");
    snprintf(text, sizeof text, format, value);
    return tool_copy(text);
}

#define RESULT_COLUMNS 3

static void print_results(const struct compare_plan *plan)
{
    static const char *const names[RESULT_COLUMNS] = {"time s", "accuracy %", "speed-up"};
    struct tool_table table = start_table(plan, names, RESULT_COLUMNS);
    char **cells = tool_allocate(table.columns, sizeof *cells);
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        cells[0] = tool_copy(plan->modes[mode].label);
        for (size_t rank = 0; rank < plan->rank_count; rank++) {
            struct compare_medians medians = compare_medians(plan, mode, rank);
            char **cell = cells + 1 + rank * RESULT_COLUMNS;
            cell[0] = figure("%.1f", medians.time);
            cell[1] = figure("%.2f", medians.accuracy);
            cell[2] = figure("%.2f", medians.speed_up);
        }
        tool_table_add(&table, cells);
    }
    tool_table_print(&table, stdout);
    tool_table_free(&table);
    free(cells);
}

#define BYTE_COLUMNS 3

static char *byte_figure(double bytes)
{
    return bytes < 0 ? tool_copy("-") : tool_bytes(bytes);
}

static void print_bytes(const struct compare_plan *plan)
{
    static const char *const names[BYTE_COLUMNS] = {"natively", "on the wire", "ratio"};
    struct tool_table table = start_table(plan, names, BYTE_COLUMNS);
    char **cells = tool_allocate(table.columns, sizeof *cells);
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        if (!plan->modes[mode].shim)
            continue;
        cells[0] = tool_copy(plan->modes[mode].label);
        for (size_t rank = 0; rank < plan->rank_count; rank++) {
            struct compare_medians medians = compare_medians(plan, mode, rank);
            bool known = medians.bytes_wire > 0;
            char **cell = cells + 1 + rank * BYTE_COLUMNS;
            cell[0] = byte_figure(medians.bytes_native);
            cell[1] = byte_figure(medians.bytes_wire);
            cell[2] = figure("%.2f", known ? medians.bytes_native / medians.bytes_wire : -1);
        }
        tool_table_add(&table, cells);
    }
    if (table.rows > table.headings) {
        printf("\nBytes of the compressed all-reduces, sent by all ranks\n");
        tool_table_print(&table, stdout);
    }
    tool_table_free(&table);
    free(cells);
}

void compare_print(const struct compare_plan *plan, const json_t *environment)
{
    char *runs = tool_plural(plan->repeat, "run");
    print_environment(plan, environment);
    printf("\nResults (%s%s; speed-up against off with as many ranks)\n",
           plan->repeat > 1 ? "medians of " : "", runs);
    print_results(plan);
    if (compare_uses_wall(plan))
        printf("Times are of the whole command: not every output has a match for --metric-time.\n");
    print_bytes(plan);
    free(runs);
}
