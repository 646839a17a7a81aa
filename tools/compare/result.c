/* SPDX-License-Identifier: Apache-2.0 */
/* From single runs to medians, and everything as JSON. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare/compare.h"
#include "tools/lib/tool.h"
#include "version.h"

#define UNKNOWN (-1.0)

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values, of which there is one at least. The mean of the middle two for an even count.
 */
static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

bool compare_uses_wall(const struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++)
        for (size_t run = 0; run < plan->cells[i].count; run++)
            if (!plan->cells[i].runs[run].has_time)
                return true;
    return false;
}

/* Returns false if the run does not have the figure. */
static bool run_figure(const struct compare_run *run, enum compare_figure figure, bool wall,
                       double *value)
{
    switch (figure) {
    case COMPARE_FIGURE_TIME:
        *value = wall ? run->wall : run->time;
        return true;
    case COMPARE_FIGURE_STEP:
        *value = run->step;
        return run->has_step;
    case COMPARE_FIGURE_ACCURACY:
        *value = run->accuracy;
        return run->has_accuracy;
    case COMPARE_FIGURE_NATIVE:
        *value = run->bytes_native;
        return run->has_report;
    case COMPARE_FIGURE_WIRE:
        *value = run->bytes_wire;
        return run->has_report;
    }
    return false;
}

const struct compare_cell *compare_cell(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return &plan->cells[mode * plan->rank_count + rank];
}

struct compare_spread compare_spread(const struct compare_plan *plan, size_t mode, size_t rank,
                                     enum compare_figure figure)
{
    const struct compare_cell *cell = compare_cell(plan, mode, rank);
    bool wall = compare_uses_wall(plan);
    double *values = tool_allocate(cell->count, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < cell->count; i++)
        if (run_figure(&cell->runs[i], figure, wall, &values[count]))
            count++;
    struct compare_spread spread = {UNKNOWN, UNKNOWN, UNKNOWN};
    if (count > 0) {
        double middle = median(values, count); /* sorts them */
        spread = (struct compare_spread){middle, values[0], values[count - 1]};
    }
    free(values);
    return spread;
}

size_t compare_native_mode(const struct compare_plan *plan)
{
    size_t mode = 0;
    while (mode < plan->mode_count && (plan->modes[mode].shim || plan->modes[mode].is_serial))
        mode++;
    return mode;
}

double compare_speed_up(const struct compare_plan *plan, size_t mode, size_t rank)
{
    size_t native = compare_native_mode(plan);
    if (native == plan->mode_count)
        return UNKNOWN;
    double natively = compare_spread(plan, native, rank, COMPARE_FIGURE_TIME).median;
    double time = compare_spread(plan, mode, rank, COMPARE_FIGURE_TIME).median;
    return natively > 0 && time > 0 ? natively / time : UNKNOWN;
}

/* Programs may print any bytes, JSON is UTF-8. */
static json_t *text_json(const char *text)
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

static json_t *number_json(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

/* Pairs of seconds and per cent. */
static json_t *curve_json(const struct compare_curve *curve)
{
    json_t *points = json_array();
    for (size_t i = 0; i < curve->count; i++)
        json_array_append_new(points, json_pack("[f,f]", curve->seconds[i], curve->accuracy[i]));
    return points;
}

static json_t *run_json(const struct compare_run *run)
{
    json_t *object = json_object();
    json_object_set_new(object, "command", text_json(run->command));
    json_object_set_new(object, "wall_seconds", json_real(run->wall));
    json_object_set_new(object, "time", number_json(run->has_time, run->time));
    json_object_set_new(object, "accuracy", number_json(run->has_accuracy, run->accuracy));
    json_object_set_new(object, "step_ms", number_json(run->has_step, run->step));
    json_object_set_new(object, "accuracy_over_time", curve_json(&run->curve));
    json_object_set_new(object, "calls", number_json(run->has_report, run->calls));
    json_object_set_new(object, "compressed_calls",
                        number_json(run->has_report, run->compressed_calls));
    json_object_set_new(object, "bytes_native", number_json(run->has_report, run->bytes_native));
    json_object_set_new(object, "bytes_wire", number_json(run->has_report, run->bytes_wire));
    json_object_set(object, "rows", run->rows != NULL ? run->rows : json_null());
    json_object_set_new(object, "output_tail", text_json(run->tail));
    return object;
}

static void set_figure(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, number_json(value >= 0, value));
}

static json_t *cell_json(const struct compare_plan *plan, size_t mode, size_t rank)
{
    static const struct {
        const char *name;
        enum compare_figure figure;
    } figures[] = {{"time", COMPARE_FIGURE_TIME},
                   {"step_ms", COMPARE_FIGURE_STEP},
                   {"accuracy", COMPARE_FIGURE_ACCURACY},
                   {"bytes_native", COMPARE_FIGURE_NATIVE},
                   {"bytes_wire", COMPARE_FIGURE_WIRE}};
    const struct compare_cell *cell = compare_cell(plan, mode, rank);
    json_t *object = json_object();
    json_t *runs = json_array();
    for (size_t i = 0; i < cell->count; i++)
        json_array_append_new(runs, run_json(&cell->runs[i]));
    json_object_set_new(object, "mode", text_json(plan->modes[mode].name));
    json_object_set_new(object, "label", text_json(plan->modes[mode].label));
    json_object_set_new(object, "ranks", json_integer(plan->ranks[rank]));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        set_figure(object, figures[i].name,
                   compare_spread(plan, mode, rank, figures[i].figure).median);
    set_figure(object, "speed_up", compare_speed_up(plan, mode, rank));
    json_object_set_new(object, "runs", runs);
    return object;
}

bool compare_write_json(const struct compare_plan *plan, json_t *environment, const char *path,
                        bool complete)
{
    json_t *root = json_object();
    json_t *results = json_array();
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            if (plan->cells[mode * plan->rank_count + rank].wanted)
                json_array_append_new(results, cell_json(plan, mode, rank));
    json_object_set_new(root, "compshim", json_string(CSHIM_VERSION));
    json_object_set_new(root, "title", text_json(plan->title));
    json_object_set_new(root, "complete", json_boolean(complete));
    json_object_set_new(root, "repeat", json_integer(plan->repeat));
    json_object_set_new(root, "time_is", json_string(compare_uses_wall(plan) ? "wall" : "metric"));
    json_object_set(root, "environment", environment);
    json_object_set_new(root, "results", results);
    bool written = json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0;
    if (!written)
        tool_warn("%s: cannot write the results", path);
    json_decref(root);
    return written;
}
