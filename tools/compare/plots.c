/* SPDX-License-Identifier: Apache-2.0 */
/* The plots of a comparison's page. A mode has one colour in all of them. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare/compare.h"
#include "tools/html/html.h"
#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

/* Adds a bar of one of the plan's modes; frees the text. */
static void add_bar(struct html_bars *plot, const struct compare_plan *plan, size_t rank,
                    size_t colour, struct compare_spread spread, const char *name, char *text)
{
    char *ranks = tool_plural(plan->ranks[rank], "rank");
    struct html_bar bar = {.group = ranks,
                           .name = name,
                           .colour = colour,
                           .value = spread.median,
                           .lowest = spread.lowest,
                           .highest = spread.highest};
    snprintf(bar.text, sizeof bar.text, "%s", text);
    html_bars_add(plot, &bar);
    free(ranks);
    free(text);
}

/* Writes the figure, with a table of the comparison behind it, and frees its bars. */
static void write_bars(FILE *file, const struct compare_plan *plan, struct html_bars *plot,
                       enum compare_table table)
{
    struct tool_table figures = compare_table(plan, NULL, table);
    html_bars(file, plot, &figures);
    tool_table_free(&figures);
    html_bars_free(plot);
}

static void collect_times(const struct compare_plan *plan, enum compare_figure figure,
                          struct html_bars *plot)
{
    const char *unit = figure == COMPARE_FIGURE_STEP ? "ms" : "s";
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t mode = 0; mode < plan->mode_count; mode++) {
            struct compare_spread spread = compare_spread(plan, mode, rank, figure);
            if (spread.median >= 0)
                add_bar(plot, plan, rank, mode, spread, plan->modes[mode].label,
                        tool_format("%.1f %s", spread.median, unit));
        }
}

/* Milliseconds per step or, where no output has them, the time of the runs. */
static void plot_time(FILE *file, const struct compare_plan *plan)
{
    struct html_bars plot = {.title = "Time of a step",
                             .note = "What a step of the program takes; shorter is better."};
    collect_times(plan, COMPARE_FIGURE_STEP, &plot);
    if (plot.count == 0) {
        plot.title = "Time of a run";
        plot.note = "What a run of the program takes; shorter is better.";
        collect_times(plan, COMPARE_FIGURE_TIME, &plot);
    }
    if (plan->repeat > 1)
        plot.note = "Median of the runs; the thin line spans all of them. Shorter is better.";
    write_bars(file, plan, &plot, COMPARE_TABLE_TIME);
}

/* What a ring would have sent, once for the modes that compressed the same calls, and what was
 * sent. */
static void collect_bytes(const struct compare_plan *plan, size_t rank, struct html_bars *plot)
{
    double shown = -1;
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        struct compare_spread native = compare_spread(plan, mode, rank, COMPARE_FIGURE_NATIVE);
        struct compare_spread wire = compare_spread(plan, mode, rank, COMPARE_FIGURE_WIRE);
        if (wire.median < 0)
            continue;
        if (native.median != shown)
            add_bar(plot, plan, rank, compare_native_mode(plan), native, "natively",
                    tool_bytes(native.median));
        shown = native.median;
        add_bar(plot, plan, rank, mode, wire, plan->modes[mode].label, tool_bytes(wire.median));
    }
}

static void plot_bytes(FILE *file, const struct compare_plan *plan)
{
    struct html_bars plot = {
        .title = "Bytes on the wire",
        .note = "Sent by all ranks in the compressed all-reduces of a run; natively: what a ring "
                "all-reduce sends for the same calls."};
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        collect_bytes(plan, rank, &plot);
    write_bars(file, plan, &plot, COMPARE_TABLE_BYTES);
}

/* The mode, or where it has several rules the rule and the mode's file; the caller frees it. */
static char *row_name(const struct compare_mode *mode, const json_t *row, bool alone)
{
    const char *slash = strrchr(mode->name, '/');
    if (alone)
        return tool_copy(mode->label);
    return tool_format("%s, %s", ledger_text(row, "rule"), slash != NULL ? slash + 1 : mode->name);
}

/* From the first run of a cell. */
static void collect_errors(const struct compare_plan *plan, size_t mode, size_t rank,
                           struct html_bars *plot)
{
    const struct compare_cell *cell = compare_cell(plan, mode, rank);
    const json_t *rows = cell->count > 0 ? cell->runs[0].rows : NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double error = ledger_error(row);
        if (error < 0)
            continue;
        char *name = row_name(&plan->modes[mode], row, json_array_size(rows) == 1);
        add_bar(plot, plan, rank, mode, (struct compare_spread){error, error, error}, name,
                tool_format("%.1e", error));
        free(name);
    }
}

static void plot_errors(FILE *file, const struct compare_plan *plan)
{
    struct html_bars plot = {
        .title = "Error per rule",
        .note = "Relative L2 error of a sum, sampled while the program ran; further left is more "
                "precise.",
        .logarithmic = true};
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        for (size_t mode = 0; mode < plan->mode_count; mode++)
            collect_errors(plan, mode, rank, &plot);
    write_bars(file, plan, &plot, COMPARE_TABLE_RULES);
}

#define CURVE_QUARTERS 4
#define CURVE_COLUMNS (1 + 2 * CURVE_QUARTERS)

/* Time and accuracy after each quarter of a run's steps. */
static void add_curve(struct tool_table *table, const char *label,
                      const struct compare_curve *curve)
{
    char *cells[CURVE_COLUMNS] = {tool_copy(label)};
    for (size_t quarter = 1; quarter <= CURVE_QUARTERS; quarter++) {
        size_t point = quarter * (curve->count - 1) / CURVE_QUARTERS;
        cells[2 * quarter - 1] = tool_format("%.1f", curve->seconds[point]);
        cells[2 * quarter] = tool_format("%.2f", curve->accuracy[point]);
    }
    tool_table_add(table, cells);
}

static struct tool_table curve_table(void)
{
    struct tool_table table = {.columns = CURVE_COLUMNS, .numeric_from = 1, .headings = 2};
    char *above[CURVE_COLUMNS] = {NULL};
    char *below[CURVE_COLUMNS] = {tool_copy("mode")};
    for (size_t quarter = 1; quarter <= CURVE_QUARTERS; quarter++) {
        above[2 * quarter - 1] =
            quarter < CURVE_QUARTERS
                ? tool_format("after %zu %% of the steps", 100 * quarter / CURVE_QUARTERS)
                : tool_copy("at the end");
        below[2 * quarter - 1] = tool_copy("s");
        below[2 * quarter] = tool_copy("%");
    }
    tool_table_add(&table, above);
    tool_table_add(&table, below);
    return table;
}

/* One figure for a number of ranks, with a line for each run. */
static void plot_curves(FILE *file, const struct compare_plan *plan, size_t rank)
{
    struct html_line *lines = tool_allocate(plan->mode_count * plan->repeat, sizeof *lines);
    struct tool_table figures = curve_table();
    size_t count = 0;
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        const struct compare_cell *cell = compare_cell(plan, mode, rank);
        for (size_t run = 0; run < cell->count; run++) {
            const struct compare_curve *curve = &cell->runs[run].curve;
            if (curve->count == 0)
                continue;
            lines[count] = (struct html_line){.name = plan->modes[mode].label,
                                              .colour = mode,
                                              .count = curve->count,
                                              .x = curve->seconds,
                                              .y = curve->accuracy};
            count++;
            add_curve(&figures, plan->modes[mode].label, curve);
        }
    }
    char *ranks = tool_plural(plan->ranks[rank], "rank");
    char *title = tool_format("Accuracy over time, %s", ranks);
    struct html_lines plot = {.title = title,
                              .note = "As the program logs it for its steps, which need not be the "
                                      "accuracy above; a line for each run.",
                              .x_name = "time, s",
                              .y_name = "accuracy, %",
                              .count = count,
                              .lines = lines};
    if (count > 0)
        html_lines(file, &plot, &figures);
    tool_table_free(&figures);
    free(title);
    free(ranks);
    free(lines);
}

static bool has_runs(const struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++)
        if (plan->cells[i].count > 0)
            return true;
    return false;
}

void compare_write_plots(FILE *file, const struct compare_plan *plan)
{
    if (!has_runs(plan))
        return;
    html_element(file, "h2", NULL, "Plots");
    html_figures_begin(file);
    for (size_t rank = 0; rank < plan->rank_count; rank++)
        plot_curves(file, plan, rank);
    plot_time(file, plan);
    plot_bytes(file, plan);
    plot_errors(file, plan);
    html_figures_end(file);
}
