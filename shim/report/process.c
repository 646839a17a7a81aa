/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/report/file.h"

struct cshim_process cshim_process;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next variables */
static struct cshim_job *jobs;
static unsigned reports; /* number of jobs that have written a report */
static uint64_t origin;  /* time zero of traces, in nanoseconds of the wall clock; 0: none */
/* The wall clock and cshim_seconds(), read together at the beginning of the first trace: the wall
 * clock may be set while the job runs. */
static uint64_t began_wall;
static double began;
static size_t written; /* number of trace events when the trace was last written */
/* The wanted trace and this process's rank, from the environment when the first trace began,
 * because the program may change it; NULL: no trace was begun. */
static char *trace_wanted;
static int trace_rank;

/* Counts in shared memory, common to a process and those forked from it once it has jobs. */
static struct family {
    unsigned users;    /* number of forked processes that called the library; atomic */
    unsigned reported; /* number of these that reached end_process, for example by exit; atomic */
} * family;            /* NULL: not counted yet, or no memory */
static unsigned own_number; /* number of this process among the users, from 1; 0: not a user */

/* Counts this process in its parent's family if the parent has jobs, and so a report that must not
 * be overwritten. Otherwise starts a new family: a parent that only makes the id of an NCCL
 * communicator for its children reports nothing. */
static void count_process(bool parent_has_jobs)
{
    if (family != NULL && parent_has_jobs) {
        own_number = __atomic_add_fetch(&family->users, 1, __ATOMIC_RELAXED);
        return;
    }
    void *shared =
        mmap(NULL, sizeof *family, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    family = shared != MAP_FAILED ? shared : NULL;
    own_number = 0;
}

/* Returns the number of this process's forked descendants that called the library and have not
 * reached end_process: they ended by _exit or a signal, or still run. Returns 0 in a forked process
 * that is itself counted, because the process that began the family counts its children. */
static unsigned count_unreported(void)
{
    if (family == NULL || own_number > 0)
        return 0;
    return __atomic_load_n(&family->users, __ATOMIC_RELAXED) -
           __atomic_load_n(&family->reported, __ATOMIC_RELAXED);
}

void cshim_process_start(const char *engine, bool is_beside)
{
    const pid_t pid = getpid();
    if (cshim_process.pid != pid)
        count_process(jobs != NULL);
    if (cshim_process.pid != 0 &&
        cshim_process.pid != pid) { /* a forked child: the jobs are its parent's */
        lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        jobs = NULL;
        reports = 0;
        written = 0;
        free(trace_wanted);
        trace_wanted = NULL; /* the child's environment may differ */
    }
    cshim_log_set_level(CSHIM_LOG_WARN);
    cshim_process.engine = engine;
    cshim_process.is_beside = is_beside;
    cshim_process.pid = pid;
}

/* Returns this process's number in the job, as the launcher sets it; 0 if it sets none. */
static int launchers_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                                        NULL};
    const char *number = cshim_environment_first(names);
    return number != NULL ? (int)strtol(number, NULL, 10) : 0;
}

/* The first offer that this process has loaded or received; NULL: none yet. This process, and its
 * forked children, make it to every group of which they are rank 0, and with every NCCL id that
 * they make, because the program may change its folder, and the user may edit the policy. */
static struct packed_offer {
    uint64_t bytes;
    char packed[];
} * first_offer;

/* Keeps a copy of the process's first offer. The lock is held. */
static void keep_first(const struct cshim_offer *offer)
{
    const uint64_t bytes = cshim_offer_packed_bytes(offer);
    struct packed_offer *made = first_offer == NULL ? malloc(sizeof *made + bytes) : NULL;
    if (made == NULL)
        return;
    made->bytes = bytes;
    cshim_offer_pack(offer, made->packed);
    __atomic_store_n(&first_offer, made, __ATOMIC_RELEASE); /* another thread may fork any time */
}

/* Copies the process's first offer, or loads it. Returns false, with a message, if it is invalid.
 * Logs warnings, if the launcher numbers this process 0 or not at all. */
static bool load_offer(struct cshim_offer *offer, char message[CSHIM_MESSAGE_MAX])
{
    pthread_mutex_lock(&lock);
    message[0] = '\0';
    const bool is_kept = first_offer != NULL;
    const bool is_loaded = is_kept
                               ? cshim_offer_unpack(offer, first_offer->packed, first_offer->bytes)
                               : cshim_offer_load(offer, message);
    if (is_kept && !is_loaded)
        snprintf(message, CSHIM_MESSAGE_MAX, "no memory for the policy");
    else if (is_loaded)
        keep_first(offer);
    pthread_mutex_unlock(&lock);
    if (is_loaded && launchers_rank() == 0 && message[0] != '\0')
        cshim_log(CSHIM_LOG_WARN, "%s", message);
    return is_loaded;
}

void cshim_job_load(struct cshim_offer *offer)
{
    char message[CSHIM_MESSAGE_MAX];
    if (load_offer(offer, message))
        return;
    cshim_log(CSHIM_LOG_ERROR, "%s", message);
    _exit(1); /* not exit: exit handlers could wait for other ranks */
}

struct cshim_job *cshim_job_native(void)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_offer offer;
    pthread_mutex_lock(&lock);
    struct cshim_job *job = jobs;
    pthread_mutex_unlock(&lock);
    if (job != NULL || !load_offer(&offer, message))
        return job;
    job = cshim_job_find(&offer);
    cshim_offer_free(&offer);
    return job;
}

static uint64_t wall_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Starts the job's trace, if one is wanted. The lock is held. */
static void begin_trace(struct cshim_job *job)
{
    const char *wanted = cshim_environment_trace();
    if (trace_wanted == NULL && wanted != NULL) {
        trace_wanted = strdup(wanted);
        trace_rank = launchers_rank();
    }
    if (trace_wanted == NULL)
        return;
    if (began_wall == 0) {
        began_wall = wall_nanoseconds();
        began = cshim_seconds();
    }
    if (origin == 0)
        origin = began_wall;
    job->trace = calloc(1, sizeof *job->trace);
    if (job->trace == NULL)
        cshim_log(CSHIM_LOG_WARN, "a rank has no memory for a trace: there will be none");
}

static struct cshim_job *make_job(const struct cshim_offer *offer)
{
    char message[CSHIM_MESSAGE_MAX] = "no memory for a job";
    struct cshim_observed *observed = offer->observe ? malloc(sizeof *observed) : NULL;
    struct cshim_job *job = calloc(1, sizeof *job);
    if (job == NULL || (offer->observe && observed == NULL) ||
        !cshim_job_adopt(job, offer, message)) {
        cshim_log(CSHIM_LOG_ERROR, "%s", message);
        free(observed);
        free(job);
        return NULL;
    }
    if (observed != NULL)
        cshim_observed_init(observed);
    job->observed = observed;
    job->rank = launchers_rank();
    job->library = cshim_process.library;
    job->is_local = true;
    job->started = cshim_seconds();
    job->wanted = cshim_report_wanted(job->policy, job->rank == 0);
    begin_trace(job);
    return job;
}

struct cshim_job *cshim_job_find(const struct cshim_offer *offer)
{
    char sha256[65], learned_sha256[65];
    cshim_offer_digest(offer, sha256, learned_sha256);
    pthread_mutex_lock(&lock);
    struct cshim_job **link = &jobs, *job;
    while ((job = *link) != NULL && (strcmp(job->policy_sha256, sha256) != 0 ||
                                     strcmp(job->learned_sha256, learned_sha256) != 0 ||
                                     (job->observed != NULL) != offer->observe))
        link = &job->next;
    if (job == NULL && (job = make_job(offer)) != NULL) {
        keep_first(offer);
        if (jobs == NULL) /* only the first is published; its number of ranks is unknown */
            cshim_ledger_publish(
                &job->ledger, cshim_live_open(job->policy, cshim_process.engine, job->rank, 1, 1));
        *link = job;
    }
    pthread_mutex_unlock(&lock);
    return job;
}

void cshim_job_grow(struct cshim_job *job, bool has_rank_0, int ranks, uint32_t nodes)
{
    pthread_mutex_lock(&lock);
    struct cshim_live *shown = job->ledger.live;
    if (has_rank_0 && ranks > job->ranks)
        job->ranks = ranks;
    if (has_rank_0 && nodes > job->nodes)
        job->nodes = nodes;
    if (shown != NULL && ranks > shown->ranks)
        shown->ranks = ranks;
    if (shown != NULL && nodes > shown->nodes)
        shown->nodes = nodes;
    pthread_mutex_unlock(&lock);
}

uint64_t cshim_job_origin(uint64_t other_origin)
{
    pthread_mutex_lock(&lock);
    if (other_origin > 0 && (origin == 0 || other_origin < origin))
        origin = other_origin;
    const uint64_t earliest = origin;
    pthread_mutex_unlock(&lock);
    return earliest;
}

/* Writing files -------------------------------------------------------------------------------- */
/* Writes the additions (cshim_report_name) to the name `wanted` of this process's file. If another
 * engine was opened before this one, adds this engine's name: report.nccl.json. If this process is
 * not the job's first one, and `wanted` has no {rank}, adds its number: report.rank4.json. If it
 * was forked from a process with a report, adds its number among the forked processes:
 * report.fork2.json. If `number` is above 1, adds it: report.job2.json. */
static void list_additions(const char *wanted, int rank, unsigned number, char additions[112])
{
    char beside[16] = "", part[32] = "", fork[32] = "", job[32] = "";
    if (cshim_process.is_beside)
        snprintf(beside, sizeof beside, ".%s", cshim_process.engine);
    if (rank > 0 && strstr(wanted, "{rank}") == NULL)
        snprintf(part, sizeof part, ".rank%d", rank);
    if (own_number > 0)
        snprintf(fork, sizeof fork, ".fork%u", own_number);
    if (number > 1)
        snprintf(job, sizeof job, ".job%u", number);
    snprintf(additions, 112, "%s%s%s%s", beside, part, fork, job);
}

/* Writes the events of all jobs of this process to a trace file. The lock is held. */
static void write_trace(int rank, const char *path)
{
    struct cshim_trace_file file = {.origin =
                                        began - 1e-9 * (double)(int64_t)(began_wall - origin)};
    char host[256] = "";
    if (!cshim_trace_open(&file, path))
        return;
    gethostname(host, sizeof host - 1);
    cshim_trace_rank(&file, rank, host);
    if (cshim_process.name_threads != NULL)
        cshim_process.name_threads(&file, rank);
    for (const struct cshim_job *job = jobs; job != NULL; job = job->next) {
        if (job->trace == NULL)
            continue;
        const size_t kept = cshim_trace_kept(job->trace);
        file.policy = job->policy;
        file.dropped += job->trace->count - kept;
        cshim_trace_events(&file, rank, job->trace->events, kept);
    }
    cshim_trace_close(&file, path);
}

void cshim_jobs_write_trace(void)
{
    char additions[112], name[CSHIM_PATH_MAX], path[CSHIM_PATH_MAX];
    if (getpid() != cshim_process.pid)
        return;
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (const struct cshim_job *job = jobs; job != NULL; job = job->next)
        count += job->trace != NULL ? job->trace->count : 0;
    if (count > written && trace_wanted != NULL) {
        written = count;
        list_additions(trace_wanted, trace_rank, 1, additions);
        if (cshim_report_name(trace_wanted, additions, name) &&
            cshim_report_path(name, trace_rank, path))
            write_trace(trace_rank, path);
        else
            cshim_log(CSHIM_LOG_ERROR, "the trace's file name is too long: %s", trace_wanted);
    }
    pthread_mutex_unlock(&lock);
}

static void write_report(struct cshim_job *job)
{
    char additions[112];
    __atomic_store_n(&job->due, false, __ATOMIC_RELAXED);
    if (job->wanted == NULL)
        return;
    if (job->report_number == 0)
        job->report_number = ++reports;
    if (job->observed != NULL)
        cshim_observed_sort(job->observed);
    job->stopped = cshim_seconds();
    job->unreported = count_unreported();
    list_additions(job->wanted, job->rank, job->report_number, additions);
    cshim_report_write(job, additions);
}

void cshim_jobs_write_reports(void)
{
    pthread_mutex_lock(&lock);
    for (struct cshim_job *job = jobs; job != NULL; job = job->next)
        if (__atomic_load_n(&job->due, __ATOMIC_RELAXED) && getpid() == cshim_process.pid)
            write_report(job);
    pthread_mutex_unlock(&lock);
}

/* Writes reports and traces that are due, and removes the figures of compshim top. Does nothing in
 * a forked child that has not called cshim_process_start(): a thread of its parent may have held a
 * lock. */
__attribute__((destructor)) static void end_process(void)
{
    if (getpid() != cshim_process.pid)
        return;
    cshim_jobs_write_reports();
    cshim_jobs_write_trace();
    if (own_number > 0)
        __atomic_fetch_add(&family->reported, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    for (const struct cshim_job *job = jobs; job != NULL; job = job->next)
        cshim_live_withdraw(job->ledger.live);
    pthread_mutex_unlock(&lock);
}
