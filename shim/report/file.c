/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the report and the trace: their names, the job's number in them, and writing them. */
#include "shim/report/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "policy/numbers.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/core/output.h"
#include "shim/core/words.h"
#include "shim/report/table.h"
#include "shim/report/json.h"
#include "shim/report/trace.h"

static char *agreed; /* {jobid}, from cshim_report_set_job(); NULL before; atomic */

static const char *launchers_number(void)
{
    static const char *const names[] = {"SLURM_JOB_ID",   "PBS_JOBID",
                                        "LSB_JOBID",      "OMPI_MCA_ess_base_jobid",
                                        "PMIX_NAMESPACE", NULL};
    return cshim_environment_first(names);
}

void cshim_report_make_job(char job[CSHIM_JOB_MAX])
{
    const char *number = launchers_number();
    struct timespec now;
    struct tm calendar;
    uint32_t chance = 0;
    char date[32] = "";
    if (number != NULL) {
        snprintf(job, CSHIM_JOB_MAX, "%s", number);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &calendar) != NULL)
        strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &calendar);
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != (ssize_t)sizeof chance)
        chance = (uint32_t)now.tv_nsec;
    snprintf(job, CSHIM_JOB_MAX, "%s-%08x", date, chance);
}

void cshim_report_set_job(const char job[CSHIM_JOB_MAX])
{
    char *none = NULL, *copy = strdup(job);
    if (!__atomic_compare_exchange_n(&agreed, &none, copy, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED))
        free(copy);
}

const char *cshim_report_job(void)
{
    const char *number = __atomic_load_n(&agreed, __ATOMIC_ACQUIRE);
    if (number == NULL)
        number = launchers_number();
    return number != NULL ? number : "0";
}

bool cshim_report_path(const char *pattern, int rank, char path[CSHIM_PATH_MAX])
{
    size_t length = 0;
    while (*pattern != '\0' && length < CSHIM_PATH_MAX) {
        const size_t room = CSHIM_PATH_MAX - length;
        if (strncmp(pattern, "{rank}", 6) == 0) {
            length += (size_t)snprintf(path + length, room, "%d", rank);
            pattern += 6;
        } else if (strncmp(pattern, "{jobid}", 7) == 0) {
            length += (size_t)snprintf(path + length, room, "%s", cshim_report_job());
            pattern += 7;
        } else {
            path[length++] = *pattern++;
        }
    }
    if (length >= CSHIM_PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

bool cshim_report_name(const char *wanted, const char *additions, char name[CSHIM_PATH_MAX])
{
    const char *slash = strrchr(wanted, '/');
    const char *dot = strrchr(slash != NULL ? slash : wanted, '.');
    const int stem = dot != NULL ? (int)(dot - wanted) : (int)strlen(wanted);
    return snprintf(name, CSHIM_PATH_MAX, "%.*s%s%s", stem, wanted, additions, wanted + stem) <
           CSHIM_PATH_MAX;
}

static void write_json(const struct cshim_job *job, const char *additions)
{
    char name[CSHIM_PATH_MAX], path[CSHIM_PATH_MAX];
    struct cshim_output output;
    if (!cshim_report_name(job->wanted, additions, name) ||
        !cshim_report_path(name, job->rank, path)) {
        cshim_log(CSHIM_LOG_ERROR, "the report's file name is too long: %s", job->wanted);
        return;
    }
    const char *problem = cshim_output_open(&output, path, CSHIM_REPORT_MARK);
    if (problem == NULL) {
        cshim_report_json(output.stream, job);
        problem = cshim_output_close(&output);
    }
    if (problem != NULL)
        cshim_log(CSHIM_LOG_ERROR, "cannot write the report %s: %s", path, problem);
}

/* Writes the lines of a table. Wraps lines that are too wide; continuation lines have the table's
 * prefix, too. */
static void fold(FILE *stream, char *text)
{
    for (char *line; (line = strsep(&text, "\n")) != NULL && text != NULL;) {
        const char *mark = "";
        while (strlen(mark) + strlen(line) > CSHIM_LINE_WIDTH) {
            char *blank = memrchr(line, ' ', CSHIM_LINE_WIDTH + 1 - strlen(mark));
            if (blank == NULL)
                break;
            fprintf(stream, "%s%.*s\n", mark, (int)(blank - line), line);
            line = blank + 1;
            mark = "compshim:   ";
        }
        fprintf(stream, "%s%s\n", mark, line);
    }
}

/* Writes the table by one call, unless memory is lacking. A launcher may put a tag before each
 * piece that it reads, and other ranks write at the same time: one call keeps tags and other text
 * out of the middle of a line. */
static void write_table(const struct cshim_job *job)
{
    char *table = NULL, *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&table, &length);
    if (stream != NULL)
        cshim_report_table(stream, job);
    FILE *folded = stream != NULL && fclose(stream) == 0 ? open_memstream(&text, &length) : NULL;
    if (folded != NULL)
        fold(folded, table);
    if (folded != NULL && fclose(folded) == 0)
        cshim_log_write(text, length);
    else if (cshim_log_has_stderr())
        cshim_report_table(stderr, job);
    free(table);
    free(text);
}

char *cshim_report_wanted(const struct cshim_policy *policy, bool speaks)
{
    const char *wanted = cshim_environment_report();
    if (wanted == NULL) {
        wanted = policy->report;
        if (strcmp(policy->source, CSHIM_POLICY_HERE) == 0 && strcmp(wanted, "off") != 0 &&
            strcmp(wanted, "summary") != 0) {
            if (speaks)
                cshim_log(CSHIM_LOG_WARN,
                          "no report is written to %s: a policy that was found in the working "
                          "folder names no files; name it by COMPSHIM_POLICY",
                          wanted);
            wanted = "summary";
        }
    }
    return strcmp(wanted, "off") != 0 ? strdup(wanted) : NULL;
}

void cshim_report_write(const struct cshim_job *job, const char *additions)
{
    const locale_t locale = cshim_numbers_begin();
    write_table(job);
    if (strcmp(job->wanted, "summary") != 0)
        write_json(job, additions);
    cshim_numbers_end(locale);
}

bool cshim_trace_open(struct cshim_trace_file *file, const char *path)
{
    const char *problem = cshim_output_open(&file->output, path, CSHIM_TRACE_MARK);
    file->stream = problem == NULL ? file->output.stream : NULL;
    if (problem == NULL)
        cshim_trace_begin(file);
    else
        cshim_log(CSHIM_LOG_ERROR, "cannot write the trace %s: %s", path, problem);
    return problem == NULL;
}

void cshim_trace_close(struct cshim_trace_file *file, const char *path)
{
    if (file->stream == NULL)
        return;
    cshim_trace_end(file);
    const char *problem = cshim_output_close(&file->output);
    if (problem != NULL)
        cshim_log(CSHIM_LOG_ERROR, "cannot write the trace %s: %s", path, problem);
    if (file->dropped > 0)
        cshim_log(CSHIM_LOG_WARN, "the trace %s has the beginning only: %llu events were too many",
                  path, (unsigned long long)file->dropped);
}
