/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/timeline.h"
#include "shim/report/report.h"

/* A line of the timeline in the file: a stream. All streams beyond the last line share it. */
#define LANES 255u

static struct lane {
    CUcontext context;
    CUstream stream;
    int device;
} lanes[LANES];
static size_t lane_count;
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t written; /* events, so far; the lock of the jobs guards it, too */

/* Lanes are numbered from 1. */
static uint8_t lane_of(const struct cshim_timeline *timeline)
{
    const struct cshim_nccl_comm *comm = timeline->comm;
    size_t lane = 0;
    pthread_mutex_lock(&lanes_lock);
    while (lane < lane_count &&
           (lanes[lane].context != comm->context || lanes[lane].stream != timeline->stream))
        lane++;
    if (lane == lane_count && lane_count < LANES)
        lanes[lane_count++] = (struct lane){comm->context, timeline->stream, comm->device};
    pthread_mutex_unlock(&lanes_lock);
    return (uint8_t)(lane < LANES ? lane + 1 : LANES);
}

/* A call comes before its phases, which may begin at the same time. Calls that share their batches
 * overlap: they are shown like nonblocking ones. */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin)
{
    const uint8_t lane = lane_of(timeline);
    for (size_t i = 0; i < timeline->call_count; i++) {
        const struct cshim_timed_call *call = &timeline->calls[i];
        const struct cshim_trace_event event = {
            .begin = begin + call->begin,
            .seconds = call->end - call->begin,
            .bytes = call->bytes,
            .call = call->sequence,
            .rule = (uint16_t)(call->plan.rule - call->job->policy->rules),
            .kind = timeline->call_count > 1 ? CSHIM_TRACE_PENDING : CSHIM_TRACE_CALL,
            .collective = (uint8_t)call->plan.collective,
            .codec = (uint8_t)call->plan.codec,
            .algorithm = (uint8_t)call->plan.algorithm,
            .thread = lane,
        };
        if (call->job->trace != NULL)
            cshim_trace_add(call->job->trace, event);
    }
    for (size_t i = 0; i < timeline->share_count; i++) {
        const struct cshim_share *share = &timeline->shares[i];
        const struct cshim_timed_call *call = &timeline->calls[share->call];
        if (share->step == CSHIM_STEPS || call->job->trace == NULL)
            continue;
        cshim_trace_add(call->job->trace,
                        (struct cshim_trace_event){.begin = begin + share->begin,
                                                   .seconds = share->seconds,
                                                   .call = call->sequence,
                                                   .kind = (uint8_t)cshim_step_phase(share->step),
                                                   .thread = lane});
    }
}

static void name_lanes(struct cshim_trace_file *file, int rank)
{
    pthread_mutex_lock(&lanes_lock);
    for (size_t i = 0; i < lane_count; i++) {
        char name[64];
        unsigned number = 0;
        for (size_t before = 0; before < i; before++)
            number += lanes[before].context == lanes[i].context;
        snprintf(name, sizeof name, "device %d, stream %u", lanes[i].device, number);
        cshim_trace_thread(file, rank, (unsigned)i + 1, name);
    }
    pthread_mutex_unlock(&lanes_lock);
}

/* Writing files -------------------------------------------------------------------------------- */
/* The name of this process's file, if the environment or the policy wants `wanted`. Where a program
 * reduces by MPI too, the MPI engine's file has that name. This one goes beside it, as
 * report.nccl.json. A process that is not the job's first one adds its number: report.rank4.json.
 * {rank} and {jobid} are not replaced yet. Returns false if the name is too long. */
static bool name_file(const char *wanted, int rank, char name[CSHIM_PATH_MAX])
{
    const char *slash = strrchr(wanted, '/');
    const char *dot = strrchr(slash != NULL ? slash : wanted, '.');
    const int stem = dot != NULL ? (int)(dot - wanted) : (int)strlen(wanted);
    char part[32] = "";
    if (rank > 0 && strstr(wanted, "{rank}") == NULL)
        snprintf(part, sizeof part, ".rank%d", rank);
    const int length = snprintf(name, CSHIM_PATH_MAX, "%.*s%s%s%s", stem, wanted,
                                cshim_nccl.beside_mpi ? ".nccl" : "", part, wanted + stem);
    return length < CSHIM_PATH_MAX;
}

static void write_trace(const struct cshim_nccl_job *jobs, int rank, double origin,
                        const char *path)
{
    struct cshim_trace_file file = {.origin = origin};
    char host[256] = "";
    if (!cshim_trace_open(&file, path))
        return;
    gethostname(host, sizeof host - 1);
    cshim_trace_rank(&file, rank, host);
    name_lanes(&file, rank);
    for (const struct cshim_nccl_job *job = jobs; job != NULL; job = job->next) {
        if (job->trace == NULL)
            continue;
        const size_t kept = cshim_trace_kept(job->trace);
        file.policy = job->policy;
        file.dropped += job->trace->count - kept;
        cshim_trace_events(&file, rank, job->trace->events, kept);
    }
    cshim_trace_close(&file, path);
}

void cshim_nccl_trace_write(void)
{
    char name[CSHIM_PATH_MAX], path[CSHIM_PATH_MAX];
    const char *wanted = cshim_trace_wanted();
    const int rank = cshim_nccl_job_rank();
    if (wanted == NULL || getpid() != cshim_nccl.pid)
        return;
    const double origin = cshim_nccl_job_origin_seconds();
    size_t count = 0;
    const struct cshim_nccl_job *jobs = cshim_nccl_jobs_lock();
    for (const struct cshim_nccl_job *job = jobs; job != NULL; job = job->next)
        count += job->trace != NULL ? job->trace->count : 0;
    if (count > written) {
        written = count;
        if (name_file(wanted, rank, name) &&
            cshim_report_path(name, rank, cshim_report_job(), path, sizeof path))
            write_trace(jobs, rank, origin, path);
        else
            cshim_log(CSHIM_LOG_ERROR, "the trace's file name is too long: %s", wanted);
    }
    cshim_nccl_jobs_unlock();
}

static void write_report(struct cshim_nccl_job *job)
{
    char library[32], name[CSHIM_PATH_MAX];
    const char *wanted = cshim_report_wanted(job->policy);
    job->due = false;
    if (wanted == NULL)
        return;
    const int rank = cshim_nccl_job_rank();
    const bool is_file = strcmp(wanted, "summary") != 0;
    const bool fits = is_file && name_file(wanted, rank, name);
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
    for (struct cshim_nccl_job *job = cshim_nccl_jobs_lock(); job != NULL; job = job->next)
        if (job->due && getpid() == cshim_nccl.pid)
            write_report(job);
    cshim_nccl_jobs_unlock();
}

/* Not in a forked child: another thread of its parent may have held the lock. */
__attribute__((destructor)) static void end_process(void)
{
    if (getpid() != cshim_nccl.pid)
        return;
    cshim_nccl_report_write();
    cshim_nccl_trace_write();
    for (const struct cshim_nccl_job *job = cshim_nccl_jobs_lock(); job != NULL; job = job->next)
        cshim_live_withdraw(job->ledger.live);
    cshim_nccl_jobs_unlock();
}
