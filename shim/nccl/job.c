/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/report/report.h"

struct cshim_nccl_process cshim_nccl;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct cshim_nccl_job *jobs;
static uint64_t origin; /* of traces: nanoseconds of the wall clock; 0: none */

/* The policy that this process would choose itself. Returns false, and why, if it is wrong. */
static bool load(struct cshim_offer *offer, char message[CSHIM_MESSAGE_MAX])
{
    const char *mode = secure_getenv("COMPSHIM");
    struct cshim_policy *policy = NULL;
    *offer = (struct cshim_offer){.observe = mode != NULL && strcmp(mode, "observe") == 0};
    offer->text = cshim_policy_load(NULL, &offer->length, offer->source, message);
    if (offer->text != NULL)
        policy = cshim_policy_parse(offer->text, offer->length, offer->source, message);
    if (policy == NULL) {
        free(offer->text);
        return false;
    }
    cshim_policy_free(policy);
    if (message[0] != '\0')
        cshim_log(CSHIM_LOG_WARN, "%s", message);
    return true;
}

void cshim_nccl_job_load(struct cshim_offer *offer)
{
    char message[CSHIM_MESSAGE_MAX];
    if (load(offer, message))
        return;
    cshim_log(CSHIM_LOG_ERROR, "%s", message);
    _exit(1); /* before any work; exit handlers could wait for other ranks */
}

struct cshim_nccl_job *cshim_nccl_job_native(void)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_offer offer;
    struct cshim_nccl_job *job = cshim_nccl_jobs_lock();
    cshim_nccl_jobs_unlock();
    if (job != NULL || !load(&offer, message))
        return job;
    job = cshim_nccl_job_find(&offer);
    free(offer.text);
    return job;
}

static uint64_t wall_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The lock is held. */
static void begin_trace(struct cshim_nccl_job *job)
{
    if (cshim_trace_wanted() == NULL)
        return;
    if (origin == 0)
        origin = wall_nanoseconds();
    job->trace = calloc(1, sizeof *job->trace);
    if (job->trace == NULL)
        cshim_log(CSHIM_LOG_WARN, "a rank has no memory for a trace: there will be none");
}

static struct cshim_nccl_job *make_job(const struct cshim_offer *offer, const char *sha256)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy =
        cshim_policy_parse(offer->text, offer->length, offer->source, message);
    struct cshim_observed *observed = offer->observe ? malloc(sizeof *observed) : NULL;
    struct cshim_nccl_job *job = calloc(1, sizeof *job);
    if (policy == NULL || job == NULL || (offer->observe && observed == NULL) ||
        !cshim_ledger_init(&job->ledger, policy)) {
        cshim_log(CSHIM_LOG_ERROR, "%s", policy == NULL ? message : "no memory for the ledger");
        cshim_policy_free(policy);
        free(observed);
        free(job);
        return NULL;
    }
    if (observed != NULL)
        cshim_observed_init(observed);
    job->policy = policy;
    job->observed = observed;
    memcpy(job->sha256, sha256, sizeof job->sha256);
    job->started = cshim_seconds();
    cshim_log_set_level(job->policy->log);
    job->is_reported = cshim_report_wanted(job->policy) != NULL;
    begin_trace(job);
    return job;
}

struct cshim_nccl_job *cshim_nccl_job_find(const struct cshim_offer *offer)
{
    char sha256[65];
    cshim_policy_sha256(offer->text, offer->length, sha256);
    pthread_mutex_lock(&lock);
    struct cshim_nccl_job *job = jobs;
    while (job != NULL &&
           (strcmp(job->sha256, sha256) != 0 || (job->observed != NULL) != offer->observe))
        job = job->next;
    if (job == NULL && (job = make_job(offer, sha256)) != NULL) {
        if (jobs == NULL) /* only the first is published; how many ranks it has is not known yet */
            cshim_ledger_publish(&job->ledger,
                                 cshim_live_open(job->policy, "nccl", cshim_nccl_job_rank(), 1, 1));
        job->next = jobs;
        jobs = job;
    }
    pthread_mutex_unlock(&lock);
    return job;
}

void cshim_nccl_job_grow(struct cshim_nccl_job *job, bool has_rank_0, int ranks, uint32_t nodes)
{
    pthread_mutex_lock(&lock);
    struct cshim_live *shown = job->ledger.live;
    if (has_rank_0 && (uint32_t)ranks > job->ranks)
        job->ranks = (uint32_t)ranks;
    if (has_rank_0 && nodes > job->nodes)
        job->nodes = nodes;
    if (shown != NULL && ranks > shown->ranks)
        shown->ranks = ranks;
    if (shown != NULL && nodes > shown->nodes)
        shown->nodes = nodes;
    pthread_mutex_unlock(&lock);
}

struct cshim_nccl_job *cshim_nccl_jobs_lock(void)
{
    pthread_mutex_lock(&lock);
    return jobs;
}

void cshim_nccl_jobs_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

int cshim_nccl_job_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0')
            return (int)strtol(value, NULL, 10);
    }
    return 0;
}

uint64_t cshim_nccl_job_origin(uint64_t began)
{
    pthread_mutex_lock(&lock);
    if (began > 0 && (origin == 0 || began < origin))
        origin = began;
    const uint64_t earliest = origin;
    pthread_mutex_unlock(&lock);
    return earliest;
}

double cshim_nccl_job_origin_seconds(void)
{
    const int64_t since = (int64_t)(wall_nanoseconds() - cshim_nccl_job_origin(0));
    return cshim_seconds() - 1e-9 * (double)since;
}
