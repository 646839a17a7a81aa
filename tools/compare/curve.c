/* SPDX-License-Identifier: Apache-2.0 */
/* Accuracy over time, from the log of steps that a program left at {log}. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/compare.h"
#include "tools/lib/tool.h"

#define SECONDS_MAX 1e9

/* Which columns the first line names. */
struct columns {
    size_t seconds;
    size_t accuracy;
    bool complete;
};

static struct columns find_columns(const char *heading)
{
    struct columns columns = {0};
    bool seconds = false;
    bool accuracy = false;
    size_t count = 0;
    char **names = tool_split(heading, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "seconds") == 0) {
            columns.seconds = i;
            seconds = true;
        } else if (strcmp(names[i], "accuracy") == 0) {
            columns.accuracy = i;
            accuracy = true;
        }
    }
    columns.complete = seconds && accuracy;
    tool_split_free(names, count);
    return columns;
}

static bool parse_cell(char *const *cells, size_t count, size_t column, double most, double *value)
{
    if (column >= count)
        return false;
    char *end = NULL;
    *value = strtod(cells[column], &end);
    return end != cells[column] && *end == '\0' && isfinite(*value) && *value >= 0 &&
           *value <= most;
}

/* Appends the point of a line, if it holds one; the last line of a stopped program may not. */
static void add_point(struct compare_curve *curve, const struct columns *columns, const char *line)
{
    size_t count = 0;
    char **cells = tool_split(line, &count);
    double seconds = 0;
    double accuracy = 0;
    if (parse_cell(cells, count, columns->seconds, SECONDS_MAX, &seconds) &&
        parse_cell(cells, count, columns->accuracy, 1, &accuracy)) {
        curve->seconds[curve->count] = seconds;
        curve->accuracy[curve->count++] = 100 * accuracy;
    }
    tool_split_free(cells, count);
}

/* Keeps points at even distances, the first and the last among them. */
static void thin(struct compare_curve *curve)
{
    if (curve->count <= COMPARE_CURVE_MAX)
        return;
    for (size_t i = 0; i < COMPARE_CURVE_MAX; i++) {
        size_t from = i * (curve->count - 1) / (COMPARE_CURVE_MAX - 1);
        curve->seconds[i] = curve->seconds[from];
        curve->accuracy[i] = curve->accuracy[from];
    }
    curve->count = COMPARE_CURVE_MAX;
}

static size_t count_lines(const char *text)
{
    size_t lines = 1;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

bool compare_curve_read(const char *path, struct compare_curve *curve)
{
    size_t length = 0;
    char *text = tool_read_file(path, &length);
    *curve = (struct compare_curve){0};
    if (text == NULL) {
        tool_warn("the run left no log of its steps at {log}: %s", strerror(errno));
        return false;
    }
    char *rest = NULL;
    size_t lines = count_lines(text);
    const char *line = strtok_r(text, "\r\n", &rest);
    struct columns columns = find_columns(line != NULL ? line : "");
    if (columns.complete) {
        curve->seconds = tool_allocate(lines, sizeof *curve->seconds);
        curve->accuracy = tool_allocate(lines, sizeof *curve->accuracy);
        while ((line = strtok_r(NULL, "\r\n", &rest)) != NULL)
            add_point(curve, &columns, line);
        thin(curve);
    }
    free(text);
    if (curve->count > 0)
        return true;
    tool_warn("the log of steps at {log} has no columns 'seconds' and 'accuracy' (0 to 1)");
    compare_curve_free(curve);
    return false;
}

void compare_curve_free(struct compare_curve *curve)
{
    free(curve->seconds);
    free(curve->accuracy);
    *curve = (struct compare_curve){0};
}
