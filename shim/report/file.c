/* SPDX-License-Identifier: Apache-2.0 */
/* Where report and trace go, and the number of the job for their names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "policy/numbers.h"
#include "shim/core/log.h"
#include "shim/report/report.h"
#include "shim/report/trace.h"

static char agreed[CSHIM_JOB_MAX]; /* set once, before the first report or trace */

static const char *launchers_number(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
                                        "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0')
            return value;
    }
    return NULL;
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

static void write_json(const char *pattern, int rank, const struct cshim_ledger *ledger,
                       const struct cshim_report_facts *facts)
{
    char path[CSHIM_PATH_MAX];
    if (!cshim_report_path(pattern, rank, cshim_report_job(), path, sizeof path)) {
        cshim_log(CSHIM_LOG_ERROR, "the report's file name is too long: %s", pattern);
        return;
    }
    FILE *stream = fopen(path, "we");
    if (stream == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "cannot write the report %s: %s", path, strerror(errno));
        return;
    }
    cshim_report_json(stream, ledger, facts);
    const bool lost = ferror(stream) != 0;
    if (fclose(stream) != 0 || lost)
        cshim_log(CSHIM_LOG_ERROR, "cannot write all of the report %s", path);
}

/* Writes the table by one call. A launcher may put a tag before each piece that it reads, and other
 * ranks write at the same time: neither may come into the middle of a line. */
static void write_table(const struct cshim_ledger *ledger, const struct cshim_report_facts *facts)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL) {
        cshim_report_table(stderr, ledger, facts);
        return;
    }
    cshim_report_table(stream, ledger, facts);
    if (fclose(stream) == 0)
        fwrite(text, 1, length, stderr);
    else
        cshim_report_table(stderr, ledger, facts);
    free(text);
}

const char *cshim_report_wanted(const struct cshim_policy *policy)
{
    const char *wanted = getenv("COMPSHIM_REPORT");
    if (wanted == NULL || *wanted == '\0')
        wanted = policy->report;
    return strcmp(wanted, "off") != 0 ? wanted : NULL;
}

void cshim_report_write(const char *wanted, int rank, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts)
{
    const locale_t locale = cshim_numbers_begin();
    write_table(ledger, facts);
    if (strcmp(wanted, "summary") != 0)
        write_json(wanted, rank, ledger, facts);
    cshim_numbers_end(locale);
}

const char *cshim_trace_wanted(void)
{
    const char *wanted = getenv("COMPSHIM_TRACE");
    const bool is_wanted = wanted != NULL && *wanted != '\0' && strcmp(wanted, "off") != 0;
    return is_wanted ? wanted : NULL;
}

bool cshim_trace_open(struct cshim_trace_file *file, const char *path)
{
    file->stream = fopen(path, "we");
    if (file->stream != NULL)
        cshim_trace_begin(file);
    else
        cshim_log(CSHIM_LOG_ERROR, "cannot write the trace %s: %s", path, strerror(errno));
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
