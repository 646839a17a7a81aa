/* SPDX-License-Identifier: Apache-2.0 */
/* One measured run: the command made up for a mode and a number of ranks, started, and read. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/compare/compare.h"
#include "tools/lib/launch.h"
#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

#define TAIL_LINES 12

/* Replaces every `from` in text; the caller frees the result. */
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

/* The NULL-terminated command of a run, every word the caller's to free. */
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
        command[2] = fill_in(plan->serial, mode, ranks, log);
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

/* The command as one would type it: words with anything unusual in them are quoted. */
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

char *compare_tail(const char *output)
{
    const char *begin = output + strlen(output);
    while (begin > output && begin[-1] == '\n')
        begin--;
    size_t length = (size_t)(begin - output);
    for (int lines = 0; begin > output; begin--)
        if (begin[-1] == '\n' && ++lines == TAIL_LINES)
            break;
    return tool_format("%.*s", (int)(length - (size_t)(begin - output)), begin);
}

bool compare_metric(const regex_t *expression, const char *output, double *value)
{
    regmatch_t match[2];
    bool found = false;
    int flags = 0;
    while (regexec(expression, output, 2, match, flags) == 0) {
        if (match[1].rm_so >= 0) {
            const char *number = output + match[1].rm_so;
            char *end = NULL;
            double parsed = strtod(number, &end);
            if (end > number) {
                *value = parsed;
                found = true;
            }
        }
        if (match[0].rm_eo == 0 && *output == '\0')
            break;
        output += match[0].rm_eo > 0 ? match[0].rm_eo : 1;
        flags = output[-1] == '\n' ? 0 : REG_NOTBOL;
    }
    return found;
}

/* Adds what a report says, if there is one, to the result. */
static void read_report(const char *path, struct compare_run *result)
{
    struct ledger_file ledger;
    bool unreadable = false;
    char message[LEDGER_MESSAGE_MAX];
    if (!ledger_open(path, &ledger, &unreadable, message)) {
        if (!unreadable)
            tool_warn("%s", message);
        return;
    }
    result->has_report = true;
    result->calls += ledger_total(&ledger, "calls");
    result->compressed_calls += ledger_total(&ledger, "compressed_calls");
    result->bytes_native += ledger_total(&ledger, "bytes_native");
    result->bytes_wire += ledger_total(&ledger, "bytes_wire");
    if (result->rows == NULL)
        result->rows = json_array();
    json_array_extend(result->rows, json_object_get(ledger.root, "rows"));
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

static void warn_if_not_compressed(const struct compare_mode *mode, const struct compare_run *run)
{
    if (!run->has_report)
        tool_warn("%s: the run left no report: is the program one that calls MPI or NCCL "
                  "dynamically, and does LD_PRELOAD reach its ranks?",
                  mode->name);
    else if (run->compressed_calls == 0)
        tool_warn("%s: nothing was compressed: no all-reduce matches its rules (see --min-size, "
                  "compshim explain)",
                  mode->name);
}

/* Whether the mode's command asks for a log of steps. */
static bool asks_for_log(const struct compare_plan *plan, const struct compare_mode *mode)
{
    if (mode->is_serial)
        return strstr(plan->serial, "{log}") != NULL;
    for (char *const *word = plan->command; *word != NULL; word++)
        if (strstr(*word, "{log}") != NULL)
            return true;
    return false;
}

/* Takes from a run that ended well what its output and the files it left say. */
static void read_run(const struct compare_plan *plan, const struct compare_mode *mode,
                     const struct compare_child *child, const char *nccl_report, const char *log,
                     struct compare_run *result)
{
    *result = (struct compare_run){.wall = child->wall, .tail = compare_tail(child->output)};
    result->has_time = compare_metric(&plan->time, child->output, &result->time);
    result->has_accuracy = compare_metric(&plan->accuracy, child->output, &result->accuracy);
    result->has_step = compare_metric(&plan->step, child->output, &result->step);
    if (asks_for_log(plan, mode))
        compare_curve_read(log, &result->curve);
    if (mode->shim) {
        read_report(child->report, result);
        read_report(nccl_report, result);
        warn_if_not_compressed(mode, result);
    }
}

enum compare_end compare_run_once(const struct compare_plan *plan, const struct compare_mode *mode,
                                  uint32_t ranks, const struct compare_progress *progress,
                                  struct compare_run *result)
{
    char *report = tool_format("%s/report.json", plan->folder);
    /* Of a program that calls MPI as well. */
    char *nccl_report = tool_format("%s/report.nccl.json", plan->folder);
    char *log = tool_format("%s/steps.csv", plan->folder);
    char **command = make_command(plan, mode, ranks, log);
    char *preload = launch_preload(mode->shim ? plan->library : NULL, getenv("LD_PRELOAD"));
    struct compare_child child = {.command = command,
                                  .preload = *preload != '\0' ? preload : NULL,
                                  .policy = mode->policy,
                                  .report = mode->shim ? report : NULL,
                                  .progress = progress};
    enum compare_end end = COMPARE_DONE;
    char *text = command_text(command);
    if (!compare_child_run(&child)) {
        end = COMPARE_STOPPED;
    } else if (child.status != 0) {
        tell_failure(&child, text);
        end = COMPARE_FAILED;
    } else {
        read_run(plan, mode, &child, nccl_report, log, result);
        result->command = tool_copy(text);
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
