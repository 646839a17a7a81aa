/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a comparison: what it ran on, time, accuracy, bytes, rules. */
#include <stdlib.h>

#include "tools/compare/compare.h"
#include "tools/lib/ledger_file.h"

/* A column that every number of ranks has. */
struct column {
    const char *name;
    enum compare_figure figure;
    const char *format; /* NULL: the figure is shown as bytes */
};

/* The columns of a table with a row for each mode. */
struct layout {
    size_t count;
    bool only_shim;  /* only modes with the shim have a row */
    bool has_spread; /* a row below each mode has the lowest and the highest figures */
    const struct column *columns;
};

static char *figure_text(const struct column *column, double value)
{
    char text[64];
    if (value < 0)
        return tool_copy("-");
    if (column->format == NULL)
        return tool_bytes(value);
    snprintf(text, sizeof text, column->format, value);
    return tool_copy(text);
}

static char *spread_text(const struct column *column, const struct compare_spread *spread)
{
    if (spread->count < 2)
        return tool_copy(spread->count == 1 ? "1 run" : "-");
    char *lowest = figure_text(column, spread->lowest);
    char *highest = figure_text(column, spread->highest);
    char *text = tool_format("%s-%s", lowest, highest);
    free(lowest);
    free(highest);
    return text;
}

static struct tool_table environment_table(const struct compare_plan *plan)
{
    struct tool_table table = {.columns = 2, .numeric_from = 2};
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(plan->environment, name, value)
    {
        char *cells[] = {tool_copy(name), tool_copy(json_string_value(value))};
        tool_table_add(&table, cells);
    }
    return table;
}

/* Whether any of the table's modes is run on so many ranks. */
static bool has_column(const struct compare_plan *plan, const struct layout *layout, size_t rank)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (compare_cell(plan, mode, rank)->is_wanted &&
            (plan->modes[mode].has_shim || !layout->only_shim))
            return true;
    return false;
}

/* Adds two rows of headings: the numbers of ranks, and below each of them its columns. */
static void add_headings(struct tool_table *table, const struct compare_plan *plan,
                         const struct layout *layout)
{
    size_t most = 1 + plan->rank_count * layout->count;
    char **above = tool_allocate(most, sizeof *above);
    char **below = tool_allocate(most, sizeof *below);
    below[0] = tool_copy("mode");
    for (size_t rank = 0; rank < plan->rank_count; rank++) {
        if (!has_column(plan, layout, rank))
            continue;
        above[table->columns] = tool_plural(plan->ranks[rank], "rank");
        for (size_t i = 0; i < layout->count; i++)
            below[table->columns++] = tool_copy(layout->columns[i].name);
    }
    tool_table_add(table, above);
    tool_table_add(table, below);
    free(above);
    free(below);
}

/* Adds the row of a mode's medians, or of their spread. */
static void add_mode(struct tool_table *table, const struct compare_plan *plan,
                     const struct layout *layout, size_t mode, bool spread_row)
{
    char **cells = tool_allocate(table->columns, sizeof *cells);
    size_t used = 0;
    cells[used++] = tool_copy(spread_row ? "  lowest-highest" : plan->modes[mode].label);
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t i = 0; i < layout->count && has_column(plan, layout, rank); i++) {
            const struct column *column = &layout->columns[i];
            struct compare_spread spread = compare_spread(plan, mode, rank, column->figure);
            cells[used++] =
                spread_row ? spread_text(column, &spread) : figure_text(column, spread.median);
        }
    tool_table_add(table, cells);
    free(cells);
}

static struct tool_table mode_table(const struct compare_plan *plan, const struct layout *layout)
{
    struct tool_table table = {.columns = 1, .numeric_from = 1, .headings = 2};
    add_headings(&table, plan, layout);
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        if (layout->only_shim && !plan->modes[mode].has_shim)
            continue;
        add_mode(&table, plan, layout, mode, false);
        if (layout->has_spread)
            add_mode(&table, plan, layout, mode, true);
    }
    return table;
}

/* Whether any run has the figure. */
static bool is_known(const struct compare_plan *plan, enum compare_figure figure)
{
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++)
        if (compare_spread(plan, i / plan->rank_count, i % plan->rank_count, figure).count > 0)
            return true;
    return false;
}

#define RULE_COLUMNS 9
#define RULE_TEXTS 5 /* the first columns, aligned left */

static void add_rule(struct tool_table *table, const char *mode, uint32_t ranks, const json_t *row)
{
    static const struct column ratio = {.format = "%.2f"};
    static const struct column precision = {.format = "%.1e"};
    double wire = ledger_number(row, "bytes_wire");
    char *cells[RULE_COLUMNS] = {
        tool_copy(mode),
        tool_plural(ranks, "rank"),
        tool_copy(ledger_text(row, "rule")),
        tool_copy(ledger_text(row, "codec")),
        tool_copy(ledger_text(row, "algorithm")),
        tool_format("%.0f", ledger_number(row, "calls")),
        tool_bytes(wire),
        figure_text(&ratio, wire > 0 ? ledger_number(row, "bytes_native") / wire : -1),
        figure_text(&precision, ledger_error(row)),
    };
    tool_table_add(table, cells);
}

/* The rules of each cell's first run. */
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
            const json_t *run = json_array_get(compare_cell(plan, mode, rank)->runs, 0);
            const json_t *rows = json_object_get(run, "rows");
            for (size_t i = 0; i < json_array_size(rows); i++)
                add_rule(&table, plan->modes[mode].label, plan->ranks[rank],
                         json_array_get(rows, i));
        }
    return table;
}

struct compare_section compare_section(const struct compare_plan *plan, enum compare_table which)
{
    static const struct column time[] = {{"time s", COMPARE_FIGURE_TIME, "%.1f"},
                                         {"speed-up", COMPARE_FIGURE_SPEED_UP, "%.2f"},
                                         {"step ms", COMPARE_FIGURE_STEP, "%.1f"}};
    static const struct column accuracy[] = {{"%", COMPARE_FIGURE_ACCURACY, "%.2f"}};
    static const struct column bytes[] = {{"natively", COMPARE_FIGURE_NATIVE, NULL},
                                          {"on the wire", COMPARE_FIGURE_WIRE, NULL},
                                          {"ratio", COMPARE_FIGURE_RATIO, "%.2f"}};
    bool repeated = plan->options->repeat > 1;
    char *runs = repeated ? tool_format("medians of %u runs", plan->options->repeat)
                          : tool_copy("a single run each (--repeat shows the spread)");
    struct compare_section section = {.table = {.columns = 1}};
    switch (which) {
    case COMPARE_TABLE_ENVIRONMENT:
        section.name = "environment";
        section.title = tool_copy("Environment");
        section.table = environment_table(plan);
        break;
    case COMPARE_TABLE_TIME:
        section.name = "time";
        section.title =
            tool_format("%s, %s; speed-up against off with as many ranks",
                        compare_uses_wall(plan) ? "Time of the whole command (not every output "
                                                  "has a match for --metric-time)"
                                                : "Time",
                        runs);
        section.table =
            mode_table(plan, &(struct layout){is_known(plan, COMPARE_FIGURE_STEP) ? 3 : 2, false,
                                              repeated, time});
        break;
    case COMPARE_TABLE_ACCURACY:
        section.name = "accuracy";
        section.title = tool_format("Accuracy, %s", runs);
        if (is_known(plan, COMPARE_FIGURE_ACCURACY))
            section.table = mode_table(plan, &(struct layout){1, false, repeated, accuracy});
        break;
    case COMPARE_TABLE_BYTES:
        section.name = "bytes";
        section.title = tool_copy("Bytes of the compressed all-reduces, sent by all ranks");
        section.table = mode_table(plan, &(struct layout){3, true, false, bytes});
        break;
    case COMPARE_TABLE_RULES:
        section.name = "rules";
        section.title = tool_copy("Rules, with the sampled error of a result");
        section.table = rule_table(plan);
        break;
    case COMPARE_TABLE_COUNT:
        break;
    }
    free(runs);
    return section;
}

void compare_section_free(struct compare_section *section)
{
    free(section->title);
    tool_table_free(&section->table);
}
