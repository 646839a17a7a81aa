/* SPDX-License-Identifier: Apache-2.0 */
/* COMPSHIM_TRACE: each process keeps the events of its ranks, on the GPU's streams but by the
 * host's clock, and writes them to a file of its own: nothing ends an NCCL job on all ranks at
 * once. */
#include "shim/report/trace.h"

#include <time.h>
#include <unistd.h>

#include "shim/nccl/internal.h"
#include "shim/report/report.h"

/* A line of the timeline: a stream. Those beyond the last share it. */
#define LANES 255u

static struct lane {
    CUcontext context;
    CUstream stream;
    int device;
} lanes[LANES];
static size_t lane_count;
static uint64_t origin; /* where the file's time begins: nanoseconds of the wall clock */
static size_t written;  /* events, so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */

static uint64_t wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void cshim_nccl_trace_setup(struct cshim_nccl_job *job)
{
    if (cshim_trace_wanted() == NULL)
        return;
    cshim_nccl_trace_align(wall_clock());
    job->trace = cshim_trace_make();
    if (job->trace == NULL)
        cshim_log(CSHIM_LOG_WARN, "a rank has no memory for a trace: there will be none");
}

uint64_t cshim_nccl_trace_align(uint64_t began)
{
    pthread_mutex_lock(&lock);
    if (origin == 0 || (began > 0 && began < origin))
        origin = began;
    const uint64_t earliest = origin;
    pthread_mutex_unlock(&lock);
    return earliest;
}

/* Lanes are numbered from 1. */
static uint8_t lane_of(const struct cshim_lap *lap)
{
    const struct cshim_nccl_comm *comm = lap->comm;
    size_t lane = 0;
    pthread_mutex_lock(&lock);
    while (lane < lane_count &&
           (lanes[lane].context != comm->context || lanes[lane].stream != lap->stream))
        lane++;
    if (lane == lane_count && lane_count < LANES)
        lanes[lane_count++] = (struct lane){comm->context, lap->stream, comm->device};
    pthread_mutex_unlock(&lock);
    return (uint8_t)(lane < LANES ? lane + 1 : LANES);
}

/* Calls that share their rounds overlap, as nonblocking ones do. */
static void add_call(const struct cshim_lap *lap, const struct cshim_lap_part *part, double begin,
                     uint8_t lane)
{
    const struct cshim_plan *plan = &part->plan;
    cshim_trace_add(part->job->trace,
                    (struct cshim_trace_event){
                        .begin = begin + part->begin,
                        .seconds = part->end - part->begin,
                        .bytes = part->bytes,
                        .call = part->sequence,
                        .rule = (uint16_t)(plan->rule - part->job->policy->rules),
                        .kind = lap->part_count > 1 ? CSHIM_TRACE_PENDING : CSHIM_TRACE_CALL,
                        .collective = (uint8_t)plan->collective,
                        .codec = (uint8_t)plan->codec,
                        .algorithm = (uint8_t)plan->algorithm,
                        .thread = lane,
                    });
}

struct place {
    double begin;
    uint8_t lane;
};

static void add_phase(void *context, const struct cshim_lap_slice *slice)
{
    static const enum cshim_trace_kind kinds[CSHIM_PHASES] = {
        CSHIM_TRACE_ENCODE, CSHIM_TRACE_EXCHANGE, CSHIM_TRACE_DECODE};
    const struct place *place = context;
    if (!slice->has_phase || slice->part->job->trace == NULL)
        return;
    cshim_trace_add(slice->part->job->trace,
                    (struct cshim_trace_event){.begin = place->begin + slice->begin,
                                               .seconds = slice->seconds,
                                               .call = slice->part->sequence,
                                               .kind = (uint8_t)kinds[slice->phase],
                                               .thread = place->lane});
}

/* A call comes before what is inside it: they may begin at the same time. */
void cshim_nccl_trace_lap(const struct cshim_lap *lap, double begin)
{
    struct place place = {.begin = begin, .lane = lane_of(lap)};
    for (size_t i = 0; i < lap->part_count; i++) {
        if (lap->parts[i].job->trace != NULL)
            add_call(lap, &lap->parts[i], begin, place.lane);
    }
    cshim_lap_visit(lap, add_phase, &place);
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

static void write_file(const struct cshim_nccl_job *jobs, int rank, const char *path)
{
    /* The origin by the clock of the events. */
    const double ago = 1e-9 * (double)(int64_t)(wall_clock() - origin);
    struct cshim_trace_file file = {.origin = cshim_seconds() - ago};
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

void cshim_nccl_trace_write(const struct cshim_nccl_job *jobs)
{
    char name[CSHIM_PATH_MAX], path[CSHIM_PATH_MAX];
    const char *wanted = cshim_trace_wanted();
    size_t count = 0;
    for (const struct cshim_nccl_job *job = jobs; job != NULL; job = job->next)
        count += job->trace != NULL ? job->trace->count : 0;
    pthread_mutex_lock(&lock);
    if (wanted != NULL && count > written) {
        const int rank = cshim_nccl_job_rank();
        written = count;
        if (cshim_nccl_choose_name(wanted, rank, name) &&
            cshim_report_path(name, rank, cshim_report_job(), path, sizeof path))
            write_file(jobs, rank, path);
        else
            cshim_log(CSHIM_LOG_ERROR, "the trace's file name is too long: %s", wanted);
    }
    pthread_mutex_unlock(&lock);
}
