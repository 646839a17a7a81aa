/* SPDX-License-Identifier: Apache-2.0 */
/* From the figures of single runs to medians and their spread. */
#include <stdlib.h>

#include "tools/compare/compare.h"

#define UNKNOWN (-1.0)

const char *compare_figure_name(enum compare_figure figure)
{
    static const char *const names[COMPARE_FIGURE_COUNT] = {
        "time", "step_ms", "accuracy", "bytes_native", "bytes_wire", "speed_up", "ratio"};
    return names[figure];
}

bool compare_uses_wall(const struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->cell_count; i++)
        for (size_t run = 0; run < json_array_size(plan->cells[i].runs); run++)
            if (!json_is_number(json_object_get(json_array_get(plan->cells[i].runs, run), "time")))
                return true;
    return false;
}

/* The mode that runs the program with all its ranks, but without the shim; mode_count if there is
 * none. */
static size_t native_mode(const struct compare_plan *plan)
{
    size_t mode = 0;
    while (mode < plan->mode_count && (plan->modes[mode].has_shim || plan->modes[mode].is_serial))
        mode++;
    return mode;
}

static double quotient(double above, double below)
{
    return above > 0 && below > 0 ? above / below : UNKNOWN;
}

/* The figure of one run, or UNKNOWN. The runs of a repeat have one index. */
static double run_figure(const struct compare_plan *plan, size_t mode, size_t rank,
                         enum compare_figure figure, size_t run)
{
    if (mode == plan->mode_count)
        return UNKNOWN;
    if (figure == COMPARE_FIGURE_SPEED_UP)
        return quotient(run_figure(plan, native_mode(plan), rank, COMPARE_FIGURE_TIME, run),
                        run_figure(plan, mode, rank, COMPARE_FIGURE_TIME, run));
    if (figure == COMPARE_FIGURE_RATIO)
        return quotient(run_figure(plan, mode, rank, COMPARE_FIGURE_NATIVE, run),
                        run_figure(plan, mode, rank, COMPARE_FIGURE_WIRE, run));
    bool wall = figure == COMPARE_FIGURE_TIME && compare_uses_wall(plan);
    const json_t *object = json_array_get(compare_cell(plan, mode, rank)->runs, run);
    const json_t *value =
        json_object_get(object, wall ? "wall_seconds" : compare_figure_name(figure));
    return json_is_number(value) ? json_number_value(value) : UNKNOWN;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

struct compare_spread compare_spread(const struct compare_plan *plan, size_t mode, size_t rank,
                                     enum compare_figure figure)
{
    struct compare_spread spread = {0, UNKNOWN, UNKNOWN, UNKNOWN};
    if (mode == plan->mode_count)
        return spread;
    size_t runs = json_array_size(compare_cell(plan, mode, rank)->runs);
    double *values = tool_allocate(runs, sizeof *values);
    for (size_t run = 0; run < runs; run++) {
        double value = run_figure(plan, mode, rank, figure, run);
        if (value >= 0)
            values[spread.count++] = value;
    }
    qsort(values, spread.count, sizeof *values, compare_doubles);
    if (spread.count > 0) {
        /* The mean of the middle two if their number is even. */
        spread.median = (values[(spread.count - 1) / 2] + values[spread.count / 2]) / 2;
        spread.lowest = values[0];
        spread.highest = values[spread.count - 1];
    }
    free(values);
    if (spread.count > 0 && figure == COMPARE_FIGURE_SPEED_UP)
        spread.median =
            quotient(compare_spread(plan, native_mode(plan), rank, COMPARE_FIGURE_TIME).median,
                     compare_spread(plan, mode, rank, COMPARE_FIGURE_TIME).median);
    if (spread.count > 0 && figure == COMPARE_FIGURE_RATIO)
        spread.median = quotient(compare_spread(plan, mode, rank, COMPARE_FIGURE_NATIVE).median,
                                 compare_spread(plan, mode, rank, COMPARE_FIGURE_WIRE).median);
    return spread;
}
