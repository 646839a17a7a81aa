/* SPDX-License-Identifier: Apache-2.0 */
/* Where report and trace go, and the number of the job for their names. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "policy/numbers.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/core/words.h"
#include "shim/report/report.h"
#include "shim/report/trace.h"

static char agreed[CSHIM_JOB_MAX]; /* set once, before the first report or trace */

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
    snprintf(agreed, sizeof agreed, "%s", job);
}

const char *cshim_report_job(void)
{
    const char *number = agreed[0] != '\0' ? agreed : launchers_number();
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

/* Opens a file for writing that is the user's own, or a device. In a folder that others write to,
 * such as /tmp, they may have put a link there, or a file of theirs. What does not begin with the
 * mark is not replaced. Returns NULL, and why. */
static FILE *open_own(const char *path, const char *mark, const char **problem)
{
    struct stat facts;
    const bool is_link = lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
    *problem = "it is a link that somebody else has made";
    if (is_link && facts.st_uid != geteuid())
        return NULL;
    const int descriptor =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (is_link ? 0 : O_NOFOLLOW), 0666);
    *problem = strerror(errno);
    if (descriptor < 0)
        return NULL;
    *problem = "it is no file of yours";
    bool is_good =
        fstat(descriptor, &facts) == 0 &&
        (S_ISCHR(facts.st_mode) ||
         (facts.st_uid == geteuid() && (S_ISFIFO(facts.st_mode) || S_ISREG(facts.st_mode))));
    if (is_good && S_ISREG(facts.st_mode)) {
        *problem = "the program, or somebody else, has put something else there";
        is_good = !cshim_is_foreign(path, mark) && ftruncate(descriptor, 0) == 0;
    }
    FILE *stream = is_good ? fdopen(descriptor, "w") : NULL;
    if (stream == NULL)
        close(descriptor);
    else
        fcntl(descriptor, F_SETFL, 0); /* a pipe's reader may be slow */
    return stream;
}

static void write_json(const char *pattern, const struct cshim_job *job)
{
    char path[CSHIM_PATH_MAX];
    if (!cshim_report_path(pattern, job->rank, path)) {
        cshim_log(CSHIM_LOG_ERROR, "the report's file name is too long: %s", pattern);
        return;
    }
    const char *problem;
    FILE *stream = open_own(path, CSHIM_REPORT_MARK, &problem);
    if (stream == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "cannot write the report %s: %s", path, problem);
        return;
    }
    cshim_report_json(stream, job);
    const bool lost = ferror(stream) != 0;
    if (fclose(stream) != 0 || lost)
        cshim_log(CSHIM_LOG_ERROR, "cannot write all of the report %s", path);
}

/* Writes the lines of a table. One that is too wide goes on in the next, which begins with the
 * table's mark, too. */
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

/* Writes the table by one call. A launcher may put a tag before each piece that it reads, and other
 * ranks write at the same time: neither may come into the middle of a line. */
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

const char *cshim_report_wanted(const struct cshim_policy *policy, bool speaks)
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
    return strcmp(wanted, "off") != 0 ? wanted : NULL;
}

void cshim_report_write(const char *wanted, const struct cshim_job *job)
{
    const locale_t locale = cshim_numbers_begin();
    write_table(job);
    if (strcmp(wanted, "summary") != 0)
        write_json(wanted, job);
    cshim_numbers_end(locale);
}

bool cshim_trace_open(struct cshim_trace_file *file, const char *path)
{
    const char *problem;
    file->stream = open_own(path, CSHIM_TRACE_MARK, &problem);
    if (file->stream != NULL)
        cshim_trace_begin(file);
    else
        cshim_log(CSHIM_LOG_ERROR, "cannot write the trace %s: %s", path, problem);
    return file->stream != NULL;
}

void cshim_trace_close(struct cshim_trace_file *file, const char *path)
{
    if (file->stream == NULL)
        return;
    cshim_trace_end(file);
    const bool lost = ferror(file->stream) != 0;
    if (fclose(file->stream) != 0 || lost)
        cshim_log(CSHIM_LOG_ERROR, "cannot write all of the trace %s", path);
    if (file->dropped > 0)
        cshim_log(CSHIM_LOG_WARN, "the trace %s has the beginning only: %llu events were too many",
                  path, (unsigned long long)file->dropped);
}
