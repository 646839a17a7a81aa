/* SPDX-License-Identifier: Apache-2.0 */
/* From single runs to medians, and everything as JSON. */
#include <stdlib.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/tool.h"
#include "version.h"

#define UNKNOWN (-1.0)

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values. The mean of the middle two for an even count. */
static double median(double *values, size_t count)
{
    if (count == 0)
        return UNKNOWN;
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

enum figure { FIGURE_TIME, FIGURE_ACCURACY, FIGURE_NATIVE, FIGURE_WIRE };

/* Returns false if the run does not have the figure. */
static bool run_figure(const struct compare_run *run, enum figure figure, bool wall, double *value)
{
    switch (figure) {
    case FIGURE_TIME:
        *value = wall ? run->wall : run->time;
        return true;
    case FIGURE_ACCURACY:
        *value = run->accuracy;
        return run->has_accuracy;
    case FIGURE_NATIVE:
        *value = run->bytes_native;
        return run->has_report;
    case FIGURE_WIRE:
        *value = run->bytes_wire;
        return run->has_report;
    }
    return false;
}

static double cell_median(const struct compare_plan *plan, size_t mode, size_t rank,
                          enum figure figure)
{
    const struct compare_cell *cell = &plan->cells[mode * plan->rank_count + rank];
    bool wall = compare_uses_wall(plan);
    double *values = tool_allocate(cell->count, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < cell->count; i++)
        if (run_figure(&cell->runs[i], figure, wall, &values[count]))
            count++;
    double middle = median(values, count);
    free(values);
    return middle;
}

static double native_time(const struct compare_plan *plan, size_t rank)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (!plan->modes[mode].shim && !plan->modes[mode].is_serial)
            return cell_median(plan, mode, rank, FIGURE_TIME);
    return UNKNOWN;
}

struct compare_medians compare_medians(const struct compare_plan *plan, size_t mode, size_t rank)
{
    struct compare_medians medians = {
        .time = cell_median(plan, mode, rank, FIGURE_TIME),
        .accuracy = cell_median(plan, mode, rank, FIGURE_ACCURACY),
        .speed_up = UNKNOWN,
        .bytes_native = cell_median(plan, mode, rank, FIGURE_NATIVE),
        .bytes_wire = cell_median(plan, mode, rank, FIGURE_WIRE),
    };
    double native = native_time(plan, rank);
    if (native > 0 && medians.time > 0)
        medians.speed_up = native / medians.time;
    return medians;
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

static json_t *run_json(const struct compare_run *run)
{
    json_t *object = json_object();
    json_object_set_new(object, "command", text_json(run->command));
    json_object_set_new(object, "wall_seconds", json_real(run->wall));
    json_object_set_new(object, "time", number_json(run->has_time, run->time));
    json_object_set_new(object, "accuracy", number_json(run->has_accuracy, run->accuracy));
    json_object_set_new(object, "calls", number_json(run->has_report, run->calls));
    json_object_set_new(object, "compressed_calls",
                        number_json(run->has_report, run->compressed_calls));
    json_object_set_new(object, "bytes_native", number_json(run->has_report, run->bytes_native));
    json_object_set_new(object, "bytes_wire", number_json(run->has_report, run->bytes_wire));
    json_object_set_new(object, "output_tail", text_json(run->tail));
    return object;
}

static json_t *cell_json(const struct compare_plan *plan, size_t mode, size_t rank)
{
    const struct compare_cell *cell = &plan->cells[mode * plan->rank_count + rank];
    struct compare_medians medians = compare_medians(plan, mode, rank);
    json_t *object = json_object();
    json_t *runs = json_array();
    for (size_t i = 0; i < cell->count; i++)
        json_array_append_new(runs, run_json(&cell->runs[i]));
    json_object_set_new(object, "mode", text_json(plan->modes[mode].name));
    json_object_set_new(object, "label", text_json(plan->modes[mode].label));
    json_object_set_new(object, "ranks", json_integer(plan->ranks[rank]));
    json_object_set_new(object, "time", number_json(medians.time >= 0, medians.time));
    json_object_set_new(object, "accuracy", number_json(medians.accuracy >= 0, medians.accuracy));
    json_object_set_new(object, "speed_up", number_json(medians.speed_up >= 0, medians.speed_up));
    json_object_set_new(object, "bytes_native",
                        number_json(medians.bytes_native >= 0, medians.bytes_native));
    json_object_set_new(object, "bytes_wire",
                        number_json(medians.bytes_wire >= 0, medians.bytes_wire));
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
