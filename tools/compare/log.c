/* SPDX-License-Identifier: Apache-2.0 */
/* Accuracy over time, from the log of steps that a program left at {log}. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare/compare.h"

#define SECONDS_MAX 1e9
#define POINTS_MAX 200
#define NO_COLUMN SIZE_MAX

/* The index of the column that the heading calls so. */
static size_t find_column(const char *heading, const char *name)
{
    size_t count = 0;
    size_t found = NO_COLUMN;
    char **names = tool_split(heading, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            found = i;
    tool_split_free(names);
    return found;
}

/* Reads a number from 0 to `most`. Returns false if the line has none in this column; the last line
 * of a stopped program may not be whole. */
static bool read_cell(const char *line, size_t column, double most, double *value)
{
    size_t count = 0;
    char **cells = tool_split(line, &count);
    char *end = NULL;
    bool good = column < count;
    if (good) {
        *value = strtod(cells[column], &end);
        good = end != cells[column] && *end == '\0' && isfinite(*value) && *value >= 0 &&
               *value <= most;
    }
    tool_split_free(cells);
    return good;
}

/* Keeps at most POINTS_MAX points at even distances, the first and the last among them. Releases
 * what it is given. */
static json_t *thin(json_t *points)
{
    size_t count = json_array_size(points);
    if (count <= POINTS_MAX)
        return points;
    json_t *kept = json_array();
    for (size_t i = 0; i < POINTS_MAX; i++)
        json_array_append(kept, json_array_get(points, i * (count - 1) / (POINTS_MAX - 1)));
    json_decref(points);
    return kept;
}

json_t *compare_read_log(const char *path)
{
    json_t *points = json_array();
    size_t length = 0;
    char *text = tool_read_file(path, &length);
    if (text == NULL) {
        tool_warn("the run left no log of its steps at {log}: %s", strerror(errno));
        return points;
    }
    char *rest = NULL;
    const char *line = strtok_r(text, "\r\n", &rest);
    size_t seconds = find_column(line != NULL ? line : "", "seconds");
    size_t accuracy = find_column(line != NULL ? line : "", "accuracy");
    while (line != NULL && (line = strtok_r(NULL, "\r\n", &rest)) != NULL) {
        double time = 0;
        double share = 0;
        if (read_cell(line, seconds, SECONDS_MAX, &time) && read_cell(line, accuracy, 1, &share))
            json_array_append_new(points, json_pack("[f,f]", time, 100 * share));
    }
    free(text);
    if (json_array_size(points) == 0)
        tool_warn("the log of steps at {log} has no columns 'seconds' and 'accuracy' (0 to 1)");
    return thin(points);
}
