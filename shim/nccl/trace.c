/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/trace.h"

#include <unistd.h>

#include "shim/nccl/communicator.h"
#include "shim/report/report.h"

/* A line of the timeline in the file: a stream. All streams beyond the last line share it. */
#define LANES 255u

static struct lane {
    CUcontext context;
    CUstream stream;
    int device;
} lanes[LANES];
static size_t lane_count;
static size_t written;                                   /* events, so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */

/* Lanes are numbered from 1. */
static uint8_t lane_of(const struct cshim_timeline *timeline)
{
    const struct cshim_nccl_comm *comm = timeline->comm;
    size_t lane = 0;
    pthread_mutex_lock(&lock);
    while (lane < lane_count &&
           (lanes[lane].context != comm->context || lanes[lane].stream != timeline->stream))
        lane++;
    if (lane == lane_count && lane_count < LANES)
        lanes[lane_count++] = (struct lane){comm->context, timeline->stream, comm->device};
    pthread_mutex_unlock(&lock);
    return (uint8_t)(lane < LANES ? lane + 1 : LANES);
}

/* A call comes before its phases, which may begin at the same time. Calls that share their batches
 * overlap: they are shown like nonblocking ones. */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin)
{
    static const enum cshim_trace_kind kinds[CSHIM_PHASES] = {
        [CSHIM_PHASE_ENCODE] = CSHIM_TRACE_ENCODE,
        [CSHIM_PHASE_EXCHANGE] = CSHIM_TRACE_EXCHANGE,
        [CSHIM_PHASE_DECODE] = CSHIM_TRACE_DECODE,
    };
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
                                                   .kind = kinds[cshim_step_phase(share->step)],
                                                   .thread = lane});
    }
}

static void name_lanes(struct cshim_trace_file *file, int rank)
{
    for (size_t i = 0; i < lane_count; i++) {
        char name[64];
        unsigned number = 0;
        for (size_t before = 0; before < i; before++)
            number += lanes[before].context == lanes[i].context;
        snprintf(name, sizeof name, "device %d, stream %u", lanes[i].device, number);
        cshim_trace_thread(file, rank, (unsigned)i + 1, name);
    }
}

static void write_file(const struct cshim_nccl_job *jobs, int rank, double origin, const char *path)
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
    pthread_mutex_lock(&lock);
    if (count > written) {
        written = count;
        if (cshim_nccl_job_file(wanted, rank, name) &&
            cshim_report_path(name, rank, cshim_report_job(), path, sizeof path))
            write_file(jobs, rank, origin, path);
        else
            cshim_log(CSHIM_LOG_ERROR, "the trace's file name is too long: %s", wanted);
    }
    pthread_mutex_unlock(&lock);
    cshim_nccl_jobs_unlock();
}
