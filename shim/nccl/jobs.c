/* SPDX-License-Identifier: Apache-2.0 */
/* Policies, what was counted under each, and the reports. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/nccl/internal.h"
#include "shim/report/report.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards jobs */
static struct cshim_nccl_job *jobs;                      /* never freed: a report may be due */
static struct cshim_live *live;                          /* what the first job publishes, or NULL */

static bool wants_to_observe(void)
{
    const char *value = getenv("COMPSHIM");
    return value != NULL && strcmp(value, "observe") == 0;
}

/* The policy that is this process's own; NULL, and why, if it is wrong. */
static char *load_own(size_t *length, char source[CSHIM_PATH_MAX], char message[CSHIM_MESSAGE_MAX])
{
    char *text = cshim_policy_load(NULL, length, source, message);
    struct cshim_policy *policy =
        text != NULL ? cshim_policy_parse(text, *length, source, message) : NULL;
    if (policy == NULL) {
        free(text);
        return NULL;
    }
    cshim_policy_free(policy);
    return text;
}

struct cshim_offer cshim_nccl_job_load(char source[CSHIM_PATH_MAX])
{
    char message[CSHIM_MESSAGE_MAX];
    size_t length;
    char *text = load_own(&length, source, message);
    if (text == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "%s", message);
        _exit(1); /* before any work; exit handlers could wait for other ranks */
    }
    return (struct cshim_offer){
        .text = text, .length = length, .source = source, .observe = wants_to_observe()};
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

struct cshim_nccl_job *cshim_nccl_job_native(void)
{
    char source[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    struct cshim_offer offer = {.source = source, .observe = wants_to_observe()};
    pthread_mutex_lock(&lock);
    struct cshim_nccl_job *job = jobs;
    pthread_mutex_unlock(&lock);
    if (job != NULL)
        return job;
    char *text = load_own(&offer.length, source, message);
    offer.text = text;
    job = text != NULL ? cshim_nccl_job_find(&offer) : NULL;
    free(text);
    return job;
}

static struct cshim_nccl_job *make_job(const struct cshim_offer *offer, const char *sha256)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_nccl_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for the policy");
        return NULL;
    }
    job->policy = cshim_policy_parse(offer->text, offer->length, offer->source, message);
    if (job->policy == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "%s", message);
        free(job);
        return NULL;
    }
    if (offer->observe && (job->observed = malloc(sizeof *job->observed)) != NULL)
        cshim_observed_init(job->observed);
    if ((offer->observe && job->observed == NULL) ||
        !cshim_ledger_init(&job->ledger, job->policy)) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for the ledger");
        cshim_policy_free(job->policy);
        free(job->observed);
        free(job);
        return NULL;
    }
    memcpy(job->sha256, sha256, sizeof job->sha256);
    job->started = cshim_seconds();
    cshim_log_set_level(job->policy->log);
    job->is_timed = cshim_report_wanted(job->policy) != NULL;
    cshim_nccl_trace_setup(job);
    return job;
}

/* compshim top knows one job of a process. How many ranks it has is not known yet. */
static void publish(struct cshim_nccl_job *job)
{
    live = cshim_live_open(job->policy, "nccl", cshim_nccl_job_rank(), 1, 1);
    (void)cshim_ledger_publish(&job->ledger, live);
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
    if (job == NULL) {
        job = make_job(offer, sha256);
        if (job != NULL && jobs == NULL)
            publish(job);
        if (job != NULL) {
            job->next = jobs;
            jobs = job;
        }
    }
    pthread_mutex_unlock(&lock);
    return job;
}

void cshim_nccl_job_grow(struct cshim_nccl_job *job, bool has_rank_0, int ranks, uint32_t nodes)
{
    pthread_mutex_lock(&lock);
    if (has_rank_0 && (uint32_t)ranks > job->ranks)
        job->ranks = (uint32_t)ranks;
    if (has_rank_0 && nodes > job->nodes)
        job->nodes = nodes;
    if (job->ledger.live != NULL && ranks > job->ledger.live->ranks)
        job->ledger.live->ranks = ranks;
    if (job->ledger.live != NULL && nodes > job->ledger.live->nodes)
        job->ledger.live->nodes = nodes;
    pthread_mutex_unlock(&lock);
}

/* A program that reduces by MPI too has the MPI engine's file under the name that is wanted: this
 * one goes beside it, as report.nccl.json. So does that of a process which is not the job's first:
 * report.rank4.json. */
bool cshim_nccl_choose_name(const char *wanted, int rank, char name[CSHIM_PATH_MAX])
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

static void report(struct cshim_nccl_job *job)
{
    char library[32], name[CSHIM_PATH_MAX];
    const char *wanted = cshim_report_wanted(job->policy);
    job->due = false;
    if (wanted == NULL)
        return;
    const int rank = cshim_nccl_job_rank();
    const bool is_file = strcmp(wanted, "summary") != 0;
    const bool fits = is_file && cshim_nccl_choose_name(wanted, rank, name);
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

void cshim_nccl_job_report(void)
{
    pthread_mutex_lock(&lock);
    for (struct cshim_nccl_job *job = jobs; job != NULL; job = job->next) {
        if (job->due && getpid() == cshim_nccl.pid)
            report(job);
    }
    pthread_mutex_unlock(&lock);
}

void cshim_nccl_job_trace(void)
{
    pthread_mutex_lock(&lock);
    if (getpid() == cshim_nccl.pid)
        cshim_nccl_trace_write(jobs);
    pthread_mutex_unlock(&lock);
}

/* A program that never destroys its communicators ends here. */
__attribute__((destructor)) static void report_at_exit(void)
{
    if (getpid() != cshim_nccl.pid)
        return; /* a child: another thread of its parent may have held the lock */
    cshim_nccl_job_report();
    cshim_nccl_job_trace();
    cshim_live_withdraw(live);
}
