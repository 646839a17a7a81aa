/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/report.h"

#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/job.h"
#include "shim/report/report.h"

static void write_report(struct cshim_nccl_job *job)
{
    char library[32], name[CSHIM_PATH_MAX];
    const char *wanted = cshim_report_wanted(job->policy);
    job->due = false;
    if (wanted == NULL)
        return;
    const int rank = cshim_nccl_job_rank();
    const bool is_file = strcmp(wanted, "summary") != 0;
    const bool fits = is_file && cshim_nccl_job_file(wanted, rank, name);
    if (is_file && !fits)
        cshim_log(CSHIM_LOG_ERROR, "the report's file name is too long: %s", wanted);
    if (job->observed != NULL)
        cshim_observed_sort(job->observed);
    const int version = cshim_nccl.version;
    snprintf(library, sizeof library, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    const struct cshim_report_facts facts = {
        .library = library,
        .ranks = job->ranks,
        .nodes = job->nodes,
        .policy_source = job->policy->source,
        .policy_sha256 = job->sha256,
        .wall_seconds = cshim_seconds() - job->started,
        .observed = job->observed,
    };
    cshim_report_write(fits ? name : "summary", rank, &job->ledger, &facts);
}

void cshim_nccl_report_write(void)
{
    for (struct cshim_nccl_job *job = cshim_nccl_jobs_lock(); job != NULL; job = job->next) {
        if (job->due && getpid() == cshim_nccl.pid)
            write_report(job);
    }
    cshim_nccl_jobs_unlock();
}

/* Not in a forked child: another thread of its parent may have held the lock. */
__attribute__((destructor)) static void end_process(void)
{
    if (getpid() != cshim_nccl.pid)
        return;
    cshim_nccl_report_write();
    cshim_nccl_trace_write();
    cshim_nccl_jobs_withdraw();
}
