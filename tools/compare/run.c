/* SPDX-License-Identifier: Apache-2.0 */
/* One measured run: makes the command for a mode and a number of ranks, starts it, and reads what
 * came of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/compare/compare.h"
#include "tools/html/page.h"
#include "tools/lib/launch.h"
#include "tools/lib/ledger_file.h"

/* Replaces every `from` in the text. The caller frees the result. */
static char *replace(const char *text, const char *from, const char *to)
{
    char *result = tool_copy("");
    for (const char *found = NULL; (found = strstr(text, from)) != NULL;
         text = found + strlen(from)) {
        char *longer = tool_format("%s%.*s%s", result, (int)(found - text), text, to);
        free(result);
        result = longer;
    }
    char *whole = tool_format("%s%s", result, text);
    free(result);
    return whole;
}

static char *fill_in(const char *text, const struct compare_mode *mode, uint32_t ranks,
                     const char *log)
{
    char number[16];
    snprintf(number, sizeof number, "%u", ranks);
    char *with_ranks = replace(text, "{ranks}", number);
    char *with_mode = replace(with_ranks, "{mode}", mode->name);
    char *filled = replace(with_mode, "{log}", log);
    free(with_ranks);
    free(with_mode);
    return filled;
}

/* Makes the NULL-terminated command of a run. free_command frees it. */
static char **make_command(const struct compare_plan *plan, const struct compare_mode *mode,
                           uint32_t ranks, const char *log)
{
    size_t words = 0;
    while (plan->command[words] != NULL)
        words++;
    char **command = tool_allocate((words > 3 ? words : 3) + 1, sizeof *command);
    if (mode->is_serial) {
        command[0] = tool_copy("/bin/sh");
        command[1] = tool_copy("-c");
        command[2] = fill_in(plan->options->serial, mode, ranks, log);
        return command;
    }
    for (size_t i = 0; i < words; i++)
        command[i] = fill_in(plan->command[i], mode, ranks, log);
    return command;
}

static void free_command(char **command)
{
    for (size_t i = 0; command[i] != NULL; i++)
        free(command[i]);
    free(command);
}

/* Writes the command as one would type it. Words with unusual characters are quoted. The caller
 * frees the text. */
static char *command_text(char *const *command)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (file == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
    for (size_t i = 0; command[i] != NULL; i++) {
        bool plain =
            command[i][0] != '\0' && strpbrk(command[i], " \t\n'\"\\$&|;<>()*?[]{}!#~`") == NULL;
        char *quoted = plain ? NULL : replace(command[i], "'", "'\\''");
        fprintf(file, plain ? "%s%s" : "%s'%s'", i > 0 ? " " : "", plain ? command[i] : quoted);
        free(quoted);
    }
    fclose(file);
    return text;
}

/* Finds the last match of a metric's expression in the output. Returns the number that its group 1
 * says, or null. */
static json_t *read_metric(const regex_t *expression, const char *output)
{
    regmatch_t match[2];
    double value = 0;
    bool found = false;
    int flags = 0;
    while (regexec(expression, output, 2, match, flags) == 0) {
        if (match[1].rm_so >= 0) {
            const char *number = output + match[1].rm_so;
            char *end = NULL;
            double parsed = strtod(number, &end);
            if (end > number) {
                value = parsed;
                found = true;
            }
        }
        if (match[0].rm_eo == 0 && *output == '\0')
            break;
        output += match[0].rm_eo > 0 ? match[0].rm_eo : 1;
        flags = output[-1] == '\n' ? 0 : REG_NOTBOL;
    }
    return found && isfinite(value) ? json_real(value) : json_null();
}

static const char *const totals[] = {"calls", "compressed_calls", "bytes_native", "bytes_wire"};

/* Adds what a report says, if there is one, to the run. */
static void read_report(const char *path, json_t *run)
{
    struct ledger_file ledger;
    bool unreadable = false;
    char message[LEDGER_MESSAGE_MAX];
    if (!ledger_open(path, &ledger, &unreadable, message)) {
        if (!unreadable)
            tool_warn("%s", message);
        return;
    }
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        double sum = ledger_number(run, totals[i]) + ledger_total(&ledger, totals[i]);
        json_object_set_new(run, totals[i], json_real(sum));
    }
    if (!json_is_array(json_object_get(run, "rows")))
        json_object_set_new(run, "rows", json_array());
    json_array_extend(json_object_get(run, "rows"), json_object_get(ledger.root, "rows"));
    ledger_close(&ledger);
}

static void tell_failure(const struct compare_child *child, const char *command)
{
    char *tail = compare_tail(child->output);
    char *how = WIFSIGNALED(child->status)
                    ? tool_format("signal %d", WTERMSIG(child->status))
                    : tool_format("exit status %d", WEXITSTATUS(child->status));
    tool_warn("this run failed (%s):\n  %s\nits last lines:\n%s", how, command,
              *tail != '\0' ? tail : "(no output)");
    free(how);
    free(tail);
}

static void warn_if_not_compressed(const struct compare_mode *mode, const json_t *run)
{
    if (!json_is_array(json_object_get(run, "rows")))
        tool_warn("%s: the run left no report: is the program one that calls MPI or NCCL "
                  "dynamically, and does LD_PRELOAD reach its ranks?",
                  mode->name);
    else if (ledger_number(run, "compressed_calls") == 0)
        tool_warn("%s: nothing was compressed: no all-reduce matches its rules (see --min-size, "
                  "compshim explain)",
                  mode->name);
}

/* Whether the program was asked to leave a log of its steps there. */
static bool names_log(char *const *command, const char *log)
{
    while (*command != NULL && strstr(*command, log) == NULL)
        command++;
    return *command != NULL;
}

/* Makes the object of a run that ended well, from its output and the files that it left. */
static json_t *read_run(const struct compare_plan *plan, const struct compare_mode *mode,
                        const struct compare_child *child, const char *command,
                        const char *nccl_report, const char *log)
{
    json_t *run =
        json_pack("{s:o, s:f}", "command", page_text(command), "wall_seconds", child->wall);
    for (enum compare_figure metric = 0; metric < COMPARE_METRIC_COUNT; metric++)
        json_object_set_new(run, compare_figure_name(metric),
                            read_metric(&plan->metrics[metric], child->output));
    json_object_set_new(run, "accuracy_over_time",
                        names_log(child->command, log) ? compare_read_log(log) : json_array());
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        json_object_set_new(run, totals[i], json_null());
    json_object_set_new(run, "rows", json_null());
    if (mode->has_shim) {
        read_report(child->report, run);
        read_report(nccl_report, run);
        warn_if_not_compressed(mode, run);
    }
    char *tail = compare_tail(child->output);
    json_object_set_new(run, "output_tail", page_text(tail));
    free(tail);
    return run;
}

enum compare_end compare_run_once(const struct compare_plan *plan, size_t mode, size_t rank,
                                  const struct compare_progress *progress)
{
    const struct compare_mode *run_mode = &plan->modes[mode];
    char *report = tool_format("%s/report.json", plan->folder);
    /* A program that calls both MPI and NCCL leaves a second report. */
    char *nccl_report = tool_format("%s/report.nccl.json", plan->folder);
    char *log = tool_format("%s/steps.csv", plan->folder);
    char **command = make_command(plan, run_mode, plan->ranks[rank], log);
    char *preload = launch_preload(run_mode->has_shim ? plan->library : NULL, getenv("LD_PRELOAD"));
    struct compare_child child = {.command = command,
                                  .preload = *preload != '\0' ? preload : NULL,
                                  .policy = run_mode->policy,
                                  .report = run_mode->has_shim ? report : NULL,
                                  .progress = progress};
    enum compare_end end = COMPARE_DONE;
    char *text = command_text(command);
    if (!compare_child_run(&child)) {
        end = COMPARE_STOPPED;
    } else if (child.status != 0) {
        tell_failure(&child, text);
        end = COMPARE_FAILED;
    } else {
        json_array_append_new(compare_cell(plan, mode, rank)->runs,
                              read_run(plan, run_mode, &child, text, nccl_report, log));
    }
    unlink(report);
    unlink(nccl_report);
    unlink(log);
    free(child.output);
    free(text);
    free(preload);
    free(log);
    free(nccl_report);
    free(report);
    free_command(command);
    return end;
}
