/* SPDX-License-Identifier: Apache-2.0 */
/* Executes one measured run: makes its command, starts it, and reads its output and files. */
#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/compare/compare.h"
#include "tools/lib/json.h"

#define LOG_SECONDS_MAX 1e9
#define LOG_POINTS_MAX 200

bool compare_has(char *const *command, const char *part)
{
    while (*command != NULL && strstr(*command, part) == NULL)
        command++;
    return *command != NULL;
}

/* Makes the NULL-terminated command of a run. */
static char **make_command(const struct compare_plan *plan, const struct compare_cell *cell,
                           const char *log)
{
    const char *const serial[] = {"/bin/sh", "-c", plan->options->serial, NULL};
    const char *const *words = cell->mode->is_serial ? serial : (const char *const *)plan->command;
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    const char *ranks = tool_format("%u", cell->ranks);
    char **command = tool_allocate(count + 1, sizeof *command);
    for (size_t i = 0; i < count; i++)
        command[i] = tool_replace(
            tool_replace(tool_replace(words[i], "{ranks}", ranks), "{mode}", cell->mode->name),
            "{log}", log);
    return command;
}

/* Returns the command as it would be typed: words with unusual characters are quoted. */
static char *command_text(char *const *command)
{
    char *text = tool_copy("");
    for (const char *space = ""; *command != NULL; command++, space = " ") {
        bool plain = **command != '\0' && strpbrk(*command, " \t\n'\"\\$&|;<>()*?[]{}!#~`") == NULL;
        text = plain ? tool_format("%s%s%s", text, space, *command)
                     : tool_format("%s%s'%s'", text, space, tool_replace(*command, "'", "'\\''"));
    }
    return text;
}

/* Returns the number at the beginning of group 1 of a metric's expression, from the last match in
 * the output that has one; null if there is none. */
static json_t *read_metric(const regex_t *expression, const char *output)
{
    regmatch_t match[2];
    double value = NAN;
    int flags = 0;
    while (regexec(expression, output, 2, match, flags) == 0) {
        if (match[1].rm_so >= 0) {
            const char *number = output + match[1].rm_so;
            char *end = NULL;
            double parsed = strtod(number, &end);
            value = end > number ? parsed : value;
        }
        if (match[0].rm_eo == 0 && *output == '\0')
            break;
        output += match[0].rm_eo > 0 ? match[0].rm_eo : 1;
        flags = output[-1] == '\n' ? 0 : REG_NOTBOL;
    }
    return tool_json_number(value);
}

/* Returns the index of the last column with this heading; SIZE_MAX if there is none. */
static size_t find_column(char **heading, size_t columns, const char *name)
{
    while (columns > 0 && strcmp(heading[columns - 1], name) != 0)
        columns--;
    return columns - 1;
}

/* Reads a number from 0 to `most`. Returns false if the line has none in this column: the last line
 * of a stopped program may be incomplete. */
static bool read_cell(char **cells, size_t count, size_t column, double most, double *value)
{
    char *end = NULL;
    if (column >= count)
        return false;
    *value = strtod(cells[column], &end);
    return end != cells[column] && *end == '\0' && *value >= 0 && *value <= most;
}

/* Keeps at most LOG_POINTS_MAX points at about equal distances, including the first and the last.
 */
static json_t *thin(json_t *points)
{
    size_t count = json_array_size(points);
    if (count <= LOG_POINTS_MAX)
        return points;
    json_t *kept = json_array();
    for (size_t i = 0; i < LOG_POINTS_MAX; i++)
        json_array_append(kept, json_array_get(points, i * (count - 1) / (LOG_POINTS_MAX - 1)));
    return kept;
}

/* Reads a log of steps: CSV whose first line names the columns `seconds` and `accuracy` (0 to 1).
 * Returns an array of pairs (seconds, per cent). If the log has none, the array is empty and a
 * message is printed. */
static json_t *read_log(const char *path)
{
    json_t *points = json_array();
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0, count = 0, seconds = SIZE_MAX, accuracy = SIZE_MAX;
    if (file == NULL) {
        warn("the run left no log of its steps at {log}");
        return points;
    }
    for (bool is_heading = true; getline(&line, &room, file) >= 0; is_heading = false) {
        double time = 0, share = 0;
        line[strcspn(line, "\r\n")] = '\0';
        char **cells = tool_split(line, &count);
        if (is_heading) {
            seconds = find_column(cells, count, "seconds");
            accuracy = find_column(cells, count, "accuracy");
        } else if (read_cell(cells, count, seconds, LOG_SECONDS_MAX, &time) &&
                   read_cell(cells, count, accuracy, 1, &share))
            json_array_append_new(points, json_pack("[f,f]", time, 100 * share));
        free(*cells);
        free(cells);
    }
    fclose(file);
    if (seconds == SIZE_MAX || accuracy == SIZE_MAX)
        warnx("the log of steps at {log} has no columns 'seconds' and 'accuracy' (0 to 1)");
    else if (json_array_size(points) == 0)
        warnx("the log of steps at {log} has no line with seconds and an accuracy from 0 to 1");
    return thin(points);
}

static int is_report(const struct dirent *entry)
{
    return fnmatch("report*.json", entry->d_name, 0) == 0;
}

static const char *const totals[] = {"calls", "compressed_calls", "bytes_native", "bytes_wire"};

/* Adds the content of a report, if there is one, to the run. */
static void read_report(const char *path, json_t *run)
{
    bool unreadable = false;
    char message[TOOL_JSON_MESSAGE_MAX];
    const json_t *report = ledger_open(path, &unreadable, message);
    if (report == NULL) {
        if (!unreadable)
            warnx("%s", message);
        return;
    }
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        double sum = ledger_number(run, totals[i]) + ledger_total(report, totals[i]);
        json_object_set_new(run, totals[i], json_real(sum));
    }
    if (!json_is_array(json_object_get(run, "rows")))
        json_object_set_new(run, "rows", json_array());
    json_array_extend(json_object_get(run, "rows"), json_object_get(report, "rows"));
}

/* Adds the content of all reports in the folder to the run (NULL: of none), and removes them.
 * Processes of a run may write report.nccl.json, report.rank2.json and the like, beside report.json
 * (compshim-report(5)). */
static void take_reports(const struct compare_plan *plan, json_t *run)
{
    struct dirent **entries = NULL;
    const int count = scandir(plan->folder, &entries, is_report, alphasort);
    for (int i = 0; i < count; i++) {
        const char *path = tool_format("%s/%s", plan->folder, entries[i]->d_name);
        if (run != NULL)
            read_report(path, run);
        unlink(path);
        free(entries[i]);
    }
    free(entries);
}

static void warn_if_not_compressed(const struct compare_mode *mode, const json_t *run)
{
    if (!json_is_array(json_object_get(run, "rows")))
        warnx("%s: the run left no report: is the program one that calls MPI, NCCL or gloo "
              "dynamically, and does LD_PRELOAD reach its ranks?",
              mode->name);
    else if (ledger_number(run, "compressed_calls") == 0)
        warnx("%s: nothing was compressed: no all-reduce matches its rules (see --min-size, "
              "compshim explain)",
              mode->name);
}

/* Makes the object of a run that ended well, from its output and files. */
static json_t *read_run(const struct compare_plan *plan, const struct compare_mode *mode,
                        const struct child *child, const char *command, const char *log)
{
    json_t *run =
        json_pack("{s:o, s:f}", "command", tool_json_text(command), "wall_seconds", child->wall);
    for (enum compare_figure metric = 0; metric < COMPARE_METRIC_COUNT; metric++)
        json_object_set_new(run, compare_figure_names[metric],
                            read_metric(&plan->metrics[metric], child->output));
    json_object_set_new(run, "accuracy_over_time",
                        compare_has(child->command, log) ? read_log(log) : json_array());
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        json_object_set_new(run, totals[i], json_null());
    json_object_set_new(run, "rows", json_null());
    if (mode->has_shim) {
        take_reports(plan, run);
        warn_if_not_compressed(mode, run);
    }
    json_object_set_new(run, "output_tail", tool_json_text(child_tail(child->output)));
    return run;
}

enum child_end compare_run_once(const struct compare_plan *plan, struct compare_cell *cell,
                                const char *progress, double left)
{
    const struct compare_mode *mode = cell->mode;
    char *log = tool_format("%s/steps.csv", plan->folder);
    char **command = make_command(plan, cell, log);
    char *text = command_text(command);
    struct child child = {.command = command,
                          .is_local = locality_is_certain(command),
                          .library = mode->has_shim ? plan->library : NULL,
                          .policy = mode->policy,
                          .report =
                              mode->has_shim ? tool_format("%s/report.json", plan->folder) : NULL,
                          .progress = progress,
                          .left = left,
                          .watch = compare_watch_load};
    enum child_end end = child_run(&child);
    if (end == CHILD_FAILED)
        child_report_failure(&child, "this run", tool_format(":\n  %s\n", text));
    if (end == CHILD_DONE)
        json_array_append_new(cell->runs, read_run(plan, mode, &child, text, log));
    take_reports(plan, NULL);
    unlink(log);
    free(child.output);
    return end;
}
