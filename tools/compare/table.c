/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a comparison: what it ran on, time, accuracy, bytes, rules. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare/compare.h"
#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

static struct tool_table environment_table(const json_t *environment)
{
    struct tool_table table = {.columns = 2, .numeric_from = 2};
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)environment, name, value)
    {
        char *cells[] = {tool_copy(name), tool_copy(json_string_value(value))};
        tool_table_add(&table, cells);
    }
    return table;
}

/* One of the columns that every number of ranks has. */
struct column {
    const char *name;
    char *(*text)(const struct compare_plan *plan, size_t mode, size_t rank);
};

static char *figure(const char *format, double value)
{
    char text[64];
    if (value < 0)
        return tool_copy("-");
    snprintf(text, sizeof text, format, value);
    return tool_copy(text);
}

static char *time_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.1f", compare_spread(plan, mode, rank, COMPARE_FIGURE_TIME).median);
}

static char *step_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.1f", compare_spread(plan, mode, rank, COMPARE_FIGURE_STEP).median);
}

static char *speed_up_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.2f", compare_speed_up(plan, mode, rank));
}

static char *accuracy_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.2f", compare_spread(plan, mode, rank, COMPARE_FIGURE_ACCURACY).median);
}

static char *lowest_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.2f", compare_spread(plan, mode, rank, COMPARE_FIGURE_ACCURACY).lowest);
}

static char *highest_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return figure("%.2f", compare_spread(plan, mode, rank, COMPARE_FIGURE_ACCURACY).highest);
}

static char *bytes_text(double bytes)
{
    return bytes < 0 ? tool_copy("-") : tool_bytes(bytes);
}

static char *native_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return bytes_text(compare_spread(plan, mode, rank, COMPARE_FIGURE_NATIVE).median);
}

static char *wire_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return bytes_text(compare_spread(plan, mode, rank, COMPARE_FIGURE_WIRE).median);
}

static char *ratio_text(const struct compare_plan *plan, size_t mode, size_t rank)
{
    double native = compare_spread(plan, mode, rank, COMPARE_FIGURE_NATIVE).median;
    double wire = compare_spread(plan, mode, rank, COMPARE_FIGURE_WIRE).median;
    return figure("%.2f", wire > 0 ? native / wire : -1);
}

/* Whether any of the modes, or of those with the shim, is run on so many ranks. */
static bool has_runs(const struct compare_plan *plan, size_t rank, bool only_shim)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (compare_cell(plan, mode, rank)->wanted && (plan->modes[mode].shim || !only_shim))
            return true;
    return false;
}

/* Two rows of headings: the numbers of ranks, and under each of them its columns. */
static struct tool_table start_table(const struct compare_plan *plan, const struct column *columns,
                                     size_t count, bool only_shim)
{
    size_t most = 1 + plan->rank_count * count;
    struct tool_table table = {.columns = 1, .numeric_from = 1, .headings = 2};
    char **above = tool_allocate(most, sizeof *above);
    char **below = tool_allocate(most, sizeof *below);
    below[0] = tool_copy("mode");
    for (size_t rank = 0; rank < plan->rank_count; rank++) {
        if (!has_runs(plan, rank, only_shim))
            continue;
        above[table.columns] = tool_plural(plan->ranks[rank], "rank");
        for (size_t i = 0; i < count; i++)
            below[table.columns++] = tool_copy(columns[i].name);
    }
    tool_table_add(&table, above);
    tool_table_add(&table, below);
    free(above);
    free(below);
    return table;
}

/* A row for each mode; for those with the shim only if so asked. */
static struct tool_table mode_table(const struct compare_plan *plan, const struct column *columns,
                                    size_t count, bool only_shim)
{
    struct tool_table table = start_table(plan, columns, count, only_shim);
    char **cells = tool_allocate(table.columns, sizeof *cells);
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        if (only_shim && !plan->modes[mode].shim)
            continue;
        size_t column = 0;
        cells[column++] = tool_copy(plan->modes[mode].label);
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            for (size_t i = 0; i < count && has_runs(plan, rank, only_shim); i++)
                cells[column++] = columns[i].text(plan, mode, rank);
        tool_table_add(&table, cells);
    }
    free(cells);
    return table;
}

/* Whether any run has the figure. */
static bool is_known(const struct compare_plan *plan, enum compare_figure figure)
{
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++)
        if (compare_spread(plan, i / plan->rank_count, i % plan->rank_count, figure).median >= 0)
            return true;
    return false;
}

static struct tool_table time_table(const struct compare_plan *plan)
{
    static const struct column columns[] = {
        {"time s", time_text}, {"speed-up", speed_up_text}, {"step ms", step_text}};
    return mode_table(plan, columns, is_known(plan, COMPARE_FIGURE_STEP) ? 3 : 2, false);
}

static struct tool_table accuracy_table(const struct compare_plan *plan)
{
    static const struct column columns[] = {
        {"%", accuracy_text}, {"lowest", lowest_text}, {"highest", highest_text}};
    if (!is_known(plan, COMPARE_FIGURE_ACCURACY))
        return (struct tool_table){.columns = 1};
    return mode_table(plan, columns, plan->repeat > 1 ? 3 : 1, false);
}

static struct tool_table bytes_table(const struct compare_plan *plan)
{
    static const struct column columns[] = {
        {"natively", native_text}, {"on the wire", wire_text}, {"ratio", ratio_text}};
    return mode_table(plan, columns, sizeof columns / sizeof *columns, true);
}

#define RULE_COLUMNS 9
#define RULE_TEXTS 5 /* the first columns, aligned left */

static void add_rule(struct tool_table *table, const char *mode, uint32_t ranks, const json_t *row)
{
    double wire = ledger_number(row, "bytes_wire");
    char *cells[RULE_COLUMNS] = {
        tool_copy(mode),
        tool_plural(ranks, "rank"),
        tool_copy(ledger_text(row, "rule")),
        tool_copy(ledger_text(row, "codec")),
        tool_copy(ledger_text(row, "algorithm")),
        tool_format("%.0f", ledger_number(row, "calls")),
        tool_bytes(wire),
        figure("%.2f", wire > 0 ? ledger_number(row, "bytes_native") / wire : -1),
        figure("%.1e", ledger_error(row)),
    };
    tool_table_add(table, cells);
}

static struct tool_table rule_table(const struct compare_plan *plan)
{
    static const char *const headings[RULE_COLUMNS] = {
        "mode", "ranks", "rule", "codec", "algorithm", "calls", "on the wire", "ratio", "error"};
    struct tool_table table = {.columns = RULE_COLUMNS, .numeric_from = RULE_TEXTS, .headings = 1};
    char *cells[RULE_COLUMNS];
    for (size_t i = 0; i < RULE_COLUMNS; i++)
        cells[i] = tool_copy(headings[i]);
    tool_table_add(&table, cells);
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t mode = 0; mode < plan->mode_count; mode++) {
            const struct compare_cell *cell = compare_cell(plan, mode, rank);
            const json_t *rows = cell->count > 0 ? cell->runs[0].rows : NULL;
            for (size_t i = 0; i < json_array_size(rows); i++)
                add_rule(&table, plan->modes[mode].label, plan->ranks[rank],
                         json_array_get(rows, i));
        }
    return table;
}

struct tool_table compare_table(const struct compare_plan *plan, const json_t *environment,
                                enum compare_table which)
{
    switch (which) {
    case COMPARE_TABLE_ENVIRONMENT:
        return environment_table(environment);
    case COMPARE_TABLE_TIME:
        return time_table(plan);
    case COMPARE_TABLE_ACCURACY:
        return accuracy_table(plan);
    case COMPARE_TABLE_BYTES:
        return bytes_table(plan);
    case COMPARE_TABLE_RULES:
        return rule_table(plan);
    case COMPARE_TABLE_COUNT:
        break;
    }
    return (struct tool_table){.columns = 1};
}

/* "Time", "Time, medians of 3 runs"; the caller frees it. */
static char *repeated(const struct compare_plan *plan, const char *what)
{
    return plan->repeat > 1 ? tool_format("%s, medians of %u runs", what, plan->repeat)
                            : tool_copy(what);
}

char *compare_table_title(const struct compare_plan *plan, enum compare_table which)
{
    char *title = NULL;
    char *begin = NULL;
    switch (which) {
    case COMPARE_TABLE_ENVIRONMENT:
        return tool_copy("Environment");
    case COMPARE_TABLE_TIME:
        begin = repeated(plan, compare_uses_wall(plan) ? "Time of the whole command (not every "
                                                         "output has a match for --metric-time)"
                                                       : "Time");
        title = tool_format("%s; speed-up against off with as many ranks", begin);
        free(begin);
        return title;
    case COMPARE_TABLE_ACCURACY:
        return repeated(plan, "Accuracy");
    case COMPARE_TABLE_BYTES:
        return tool_copy("Bytes of the compressed all-reduces, sent by all ranks");
    case COMPARE_TABLE_RULES:
        return tool_copy("Rules, with the sampled error of a result");
    case COMPARE_TABLE_COUNT:
        break;
    }
    return NULL;
}
