/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a comparison: from the figures of single runs to medians and their spread, and to
 * tables as text or Markdown, JSON and a page. */
#include <stdlib.h>

#include "tools/compare/compare.h"
#include "tools/html/page.h"
#include "tools/lib/json.h"
#include "version.h"

#define UNKNOWN (-1.0)

const char *const compare_figure_names[COMPARE_FIGURE_COUNT] = {
    "time", "step_ms", "accuracy", "bytes_native", "bytes_wire", "speed_up", "ratio"};

bool compare_misses(const struct compare_plan *plan, enum compare_figure metric)
{
    const char *name = compare_figure_names[metric];
    for (size_t i = 0; i < plan->cell_count; i++)
        for (size_t run = 0; run < json_array_size(plan->cells[i].runs); run++)
            if (!json_is_number(json_object_get(json_array_get(plan->cells[i].runs, run), name)))
                return true;
    return false;
}

static double quotient(double above, double below)
{
    return above > 0 && below > 0 ? above / below : UNKNOWN;
}

/* Returns the figure of one run, or UNKNOWN. Runs of the same repeat have the same index. */
static double run_figure(const struct compare_plan *plan, const struct compare_cell *cell,
                         enum compare_figure figure, size_t run)
{
    if (cell == NULL)
        return UNKNOWN;
    if (figure == COMPARE_FIGURE_SPEED_UP)
        return quotient(run_figure(plan, cell->native, COMPARE_FIGURE_TIME, run),
                        run_figure(plan, cell, COMPARE_FIGURE_TIME, run));
    if (figure == COMPARE_FIGURE_RATIO)
        return quotient(run_figure(plan, cell, COMPARE_FIGURE_NATIVE, run),
                        run_figure(plan, cell, COMPARE_FIGURE_WIRE, run));
    bool wall = figure == COMPARE_FIGURE_TIME && compare_misses(plan, figure);
    const json_t *value = json_object_get(json_array_get(cell->runs, run),
                                          wall ? "wall_seconds" : compare_figure_names[figure]);
    return json_is_number(value) ? json_number_value(value) : UNKNOWN;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* A figure over the runs of a cell; all three values are negative if no run has it. The median of a
 * speed-up or ratio is the quotient of two medians; its lowest and highest values are quotients
 * within a repeat. */
struct spread {
    size_t count; /* number of runs that have the figure */
    double median;
    double lowest;
    double highest;
};

static struct spread find_spread(const struct compare_plan *plan, const struct compare_cell *cell,
                                 enum compare_figure figure)
{
    struct spread spread = {0, UNKNOWN, UNKNOWN, UNKNOWN};
    const size_t runs = cell != NULL ? json_array_size(cell->runs) : 0;
    double *values = tool_allocate(runs, sizeof *values);
    for (size_t run = 0; run < runs; run++) {
        double value = run_figure(plan, cell, figure, run);
        if (value >= 0)
            values[spread.count++] = value;
    }
    qsort(values, spread.count, sizeof *values, compare_doubles);
    if (spread.count > 0) {
        /* mean of the middle two if the number is even */
        spread.median = (values[(spread.count - 1) / 2] + values[spread.count / 2]) / 2;
        spread.lowest = values[0];
        spread.highest = values[spread.count - 1];
    }
    if (spread.count > 0 && figure == COMPARE_FIGURE_SPEED_UP)
        spread.median = quotient(find_spread(plan, cell->native, COMPARE_FIGURE_TIME).median,
                                 find_spread(plan, cell, COMPARE_FIGURE_TIME).median);
    if (spread.count > 0 && figure == COMPARE_FIGURE_RATIO)
        spread.median = quotient(find_spread(plan, cell, COMPARE_FIGURE_NATIVE).median,
                                 find_spread(plan, cell, COMPARE_FIGURE_WIRE).median);
    return spread;
}

/* A column of a table, repeated for each number of ranks. */
struct column {
    const char *name;
    enum compare_figure figure;
    const char *format; /* NULL: bytes */
};

/* Columns of a table with a row for each mode. */
struct layout {
    size_t count;
    bool only_shim;  /* only modes with the shim have a row */
    bool has_spread; /* a second row for each mode has the lowest and highest figures */
    const struct column *columns;
};

static char *figure_text(const char *format, double value)
{
    if (value < 0)
        return tool_copy("-");
    return format != NULL ? tool_format(format, value) : tool_bytes(value);
}

static char *spread_text(const char *format, const struct spread *spread)
{
    if (spread->count < 2)
        return tool_copy(spread->count == 1 ? "1 run" : "-");
    return tool_format("%s-%s", figure_text(format, spread->lowest),
                       figure_text(format, spread->highest));
}

static struct tool_table environment_table(const struct compare_plan *plan)
{
    struct tool_table table = {
        .name = "environment", .title = "Environment", .columns = 2, .numeric_from = 2};
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(plan->environment, name, value)
    {
        tool_table_add(&table, (char *[]){tool_copy(name), tool_copy(json_string_value(value))});
    }
    return table;
}

/* Returns true if a mode of the table is run with this number of ranks. */
static bool has_column(const struct compare_plan *plan, const struct layout *layout, size_t rank)
{
    for (size_t i = rank; i < plan->cell_count; i += plan->rank_count)
        if (plan->cells[i].is_wanted && (plan->cells[i].mode->has_shim || !layout->only_shim))
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
            struct spread spread =
                find_spread(plan, &plan->cells[mode * plan->rank_count + rank], column->figure);
            cells[used++] = spread_row ? spread_text(column->format, &spread)
                                       : figure_text(column->format, spread.median);
        }
    tool_table_add(table, cells);
}

static struct tool_table mode_table(const struct compare_plan *plan, const char *name,
                                    const char *title, const struct layout *layout)
{
    struct tool_table table = {
        .name = name, .title = title, .columns = 1, .numeric_from = 1, .headings = 2};
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

/* Returns true if a run has the figure. */
static bool is_known(const struct compare_plan *plan, enum compare_figure figure)
{
    for (size_t i = 0; i < plan->cell_count; i++)
        if (find_spread(plan, &plan->cells[i], figure).count > 0)
            return true;
    return false;
}

/* Returns the table of the rules in each cell's first run. */
static struct tool_table rule_table(const struct compare_plan *plan)
{
    struct tool_table table =
        tool_table_of("mode,ranks,rule,codec,algorithm,calls,on the wire,ratio,error,speed-up", 5);
    table.name = "rules";
    table.title = "Rules, with the sampled error of a result";
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t mode = 0; mode < plan->mode_count; mode++) {
            const struct compare_cell *cell = &plan->cells[mode * plan->rank_count + rank];
            size_t i;
            const json_t *row;
            json_array_foreach(json_object_get(json_array_get(cell->runs, 0), "rows"), i, row)
            {
                double wire = ledger_number(row, "bytes_wire");
                const json_t *error = json_object_get(row, "rel_error"); /* null: no sample */
                char *cells[] = {
                    tool_copy(cell->mode->label),
                    tool_plural(cell->ranks, "rank"),
                    tool_copy(ledger_text(row, "rule")),
                    tool_copy(ledger_text(row, "codec")),
                    tool_copy(ledger_text(row, "algorithm")),
                    tool_format("%.0f", ledger_number(row, "calls")),
                    tool_bytes(wire),
                    figure_text("%.2f", wire > 0 ? ledger_number(row, "bytes_native") / wire : -1),
                    figure_text("%.1e", json_is_number(error) ? json_number_value(error) : UNKNOWN),
                    figure_text("%.1f", json_object_get(row, "speedup") != NULL
                                            ? ledger_number(row, "speedup")
                                            : UNKNOWN),
                };
                tool_table_add(&table, cells);
            }
        }
    return table;
}

#define TABLES 5

/* Makes all tables, in their order on the page. */
static void make_tables(const struct compare_plan *plan, struct tool_table tables[TABLES])
{
    static const struct column time[] = {{"time s", COMPARE_FIGURE_TIME, "%.1f"},
                                         {"speed-up", COMPARE_FIGURE_SPEED_UP, "%.2f"},
                                         {"step ms", COMPARE_FIGURE_STEP, "%.1f"}};
    static const struct column accuracy[] = {{"%", COMPARE_FIGURE_ACCURACY, "%.2f"}};
    static const struct column bytes[] = {{"natively", COMPARE_FIGURE_NATIVE, NULL},
                                          {"on the wire", COMPARE_FIGURE_WIRE, NULL},
                                          {"ratio", COMPARE_FIGURE_RATIO, "%.2f"}};
    const bool repeated = plan->options->repeat > 1;
    const char *runs = repeated ? tool_format("medians of %u runs", plan->options->repeat)
                                : "a single run each (--repeat shows the spread)";
    const struct layout times = {is_known(plan, COMPARE_FIGURE_STEP) ? 3 : 2, false, repeated,
                                 time};
    const struct layout accuracies = {1, false, repeated, accuracy};
    const struct layout traffic = {3, true, false, bytes};
    const char *whole = " of the whole command (not every output has a match for --metric-time)";
    tables[0] = environment_table(plan);
    tables[1] =
        mode_table(plan, "time",
                   tool_format("Time%s, %s; speed-up against off with as many ranks",
                               compare_misses(plan, COMPARE_FIGURE_TIME) ? whole : "", runs),
                   &times);
    tables[2] = is_known(plan, COMPARE_FIGURE_ACCURACY)
                    ? mode_table(plan, "accuracy", tool_format("Accuracy, %s", runs), &accuracies)
                    : (struct tool_table){0};
    tables[3] = mode_table(plan, "bytes", "Bytes of the compressed all-reduces, sent by all ranks",
                           &traffic);
    tables[4] = rule_table(plan);
}

static void write_tables(const struct compare_plan *plan, bool markdown, FILE *file)
{
    struct tool_table tables[TABLES];
    make_tables(plan, tables);
    for (size_t i = 0; i < TABLES; i++)
        tool_table_print_titled(&tables[i], markdown, file);
}

/* Writes the most important figures: the highest speed-up, its cost in accuracy, and how far runs
 * differ. */
static void write_headline(const struct compare_plan *plan, FILE *file)
{
    const struct compare_cell *best = NULL;
    for (size_t i = 0; i < plan->cell_count; i++)
        if (plan->cells[i].mode->has_shim &&
            find_spread(plan, &plan->cells[i], COMPARE_FIGURE_SPEED_UP).median >
                find_spread(plan, best, COMPARE_FIGURE_SPEED_UP).median)
            best = &plan->cells[i];
    if (best == NULL)
        return;
    const struct spread speed_up = find_spread(plan, best, COMPARE_FIGURE_SPEED_UP);
    fprintf(file, "%.1f times as fast as without compshim: %s on %s", speed_up.median,
            best->mode->label, tool_plural(best->ranks, "rank"));
    if (is_known(plan, COMPARE_FIGURE_ACCURACY))
        fprintf(file, ", accuracy %.2f %% against %.2f %%",
                find_spread(plan, best, COMPARE_FIGURE_ACCURACY).median,
                find_spread(plan, best->native, COMPARE_FIGURE_ACCURACY).median);
    if (speed_up.count > 1)
        fprintf(file, "\n%.2f to %.2f times in %zu runs", speed_up.lowest, speed_up.highest,
                speed_up.count);
    fputc('\n', file);
}

void compare_write_text(const struct compare_plan *plan, FILE *file)
{
    fprintf(file, "%s\n", plan->options->title);
    write_headline(plan, file);
    write_tables(plan, false, file);
}

void compare_write_markdown(const struct compare_plan *plan, FILE *file)
{
    fputs(COMPARE_MARKDOWN_MARK "\n# ", file);
    tool_print_markdown(plan->options->title, file);
    fputc('\n', file);
    write_tables(plan, true, file);
}

static json_t *cell_json(const struct compare_plan *plan, const struct compare_cell *of)
{
    json_t *cell = json_pack("{s:o, s:o, s:I}", "mode", tool_json_text(of->mode->name), "label",
                             tool_json_text(of->mode->label), "ranks", (json_int_t)of->ranks);
    json_t *spreads = json_object();
    for (enum compare_figure figure = 0; figure < COMPARE_FIGURE_COUNT; figure++) {
        const char *name = compare_figure_names[figure];
        struct spread spread = find_spread(plan, of, figure);
        bool known = spread.median >= 0;
        json_object_set_new(cell, name, known ? json_real(spread.median) : json_null());
        json_object_set_new(
            spreads, name, known ? json_pack("[f,f]", spread.lowest, spread.highest) : json_null());
    }
    json_object_set_new(cell, "spread", spreads);
    json_object_set(cell, "runs", of->runs);
    return cell;
}

static json_t *make_json(const struct compare_plan *plan)
{
    json_t *results = json_array();
    for (size_t i = 0; i < plan->cell_count; i++)
        if (plan->cells[i].is_wanted)
            json_array_append_new(results, cell_json(plan, &plan->cells[i]));
    return json_pack("{s:s, s:o, s:b, s:I, s:s, s:O, s:o}", "compshim", CSHIM_VERSION, "title",
                     tool_json_text(plan->options->title), "complete", plan->is_complete, "repeat",
                     (json_int_t)plan->options->repeat, "time_is",
                     compare_misses(plan, COMPARE_FIGURE_TIME) ? "wall" : "metric", "environment",
                     plan->environment, "results", results);
}

void compare_write_json(const struct compare_plan *plan, FILE *file)
{
    json_dumpf(make_json(plan), file, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
}

void compare_write_page(const struct compare_plan *plan, FILE *file)
{
    struct tool_table tables[TABLES];
    make_tables(plan, tables);
    page_write(plan->options->title, json_pack("{s:o}", "comparison", make_json(plan)),
               plan->is_complete ? "" : "Stopped early: this is what was finished.\n", tables,
               TABLES, file);
}
