/* SPDX-License-Identifier: Apache-2.0 */
/* error_feedback: what rounding took from each element, kept from call to call.
 *
 * A residual belongs to a communicator, a buffer, its count and type. Whether a rank has one
 * changes the numbers it sends and nothing else, so a rank without memory for one goes on without.
 * So does a call whose buffer is the input of another call under way. The buffer may hold another
 * tensor by now: the codec adds no more than a step of a residual.
 */
#include "shim/host/feedback.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/core/log.h"
#include "shim/host/scratch.h"

/* A program that has not used a buffer in so many calls of a communicator that have residuals will
 * hardly do so again. */
enum { CALLS_UNUSED = 4096 };
/* A sum is encoded by its owner once, whatever its way. */
static const unsigned array_of[CSHIM_MESSAGES] = {0, 1, 2, 1};
enum { ARRAYS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all lists */
static uint64_t bytes_in_use; /* of all residuals of this process; atomic */

static void free_residual(struct cshim_residual *residual)
{
    __atomic_fetch_sub(&bytes_in_use, residual->bytes, __ATOMIC_RELAXED);
    if (residual->kept[0] != NULL)
        munmap(residual->kept[0], ARRAYS * residual->count * sizeof(float));
    free(residual);
}

void cshim_residuals_free(struct cshim_communicator *communicator)
{
    for (struct cshim_residual *residual = communicator->residuals, *next; residual != NULL;
         residual = next) {
        next = residual->next;
        free_residual(residual);
    }
    communicator->residuals = NULL;
}

void cshim_residuals_abandon(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    bytes_in_use = 0;
}

/* The communicator that has the residuals of an exchange. */
static struct cshim_communicator *owner_of(const struct cshim_exchange *exchange)
{
    struct cshim_communicator *communicator = exchange->communicator;
    return communicator->whole != NULL ? communicator->whole : communicator;
}

/* Frees the residuals of a communicator that no call has taken for long. */
static void free_unused(struct cshim_communicator *communicator)
{
    struct cshim_residual **link = &communicator->residuals, *residual;
    while ((residual = *link) != NULL)
        if (residual->in_use || communicator->residuals_taken - residual->used < CALLS_UNUSED) {
            link = &residual->next;
        } else {
            *link = residual->next;
            free_residual(residual);
        }
}

/* What the pages of a residual come to: a share's elements, the chunk of it that is owned, and in a
 * grid the piece of it. */
static uint64_t residual_bytes(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t share = exchange->source.length / plan->shares * sizeof(float);
    if (!cshim_schedule_has(plan->schedule, CSHIM_STEP_COLLECT))
        return share;
    return share + share / plan->peers + (plan->grid.rows > 1 ? share / plan->grid.columns : 0);
}

/* Says once in a process that there is no more memory for residuals. */
static void warn(const struct cshim_exchange *exchange)
{
    static bool said;
    const struct cshim_job *job = exchange->communicator->job;
    if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        return;
    cshim_log(CSHIM_LOG_WARN,
              "rule '%s': no memory for another residual of %llu bytes on rank %d (feedback_memory "
              "= %llu): such buffers go on without error feedback",
              exchange->plan->rule->name, (unsigned long long)residual_bytes(exchange), job->rank,
              (unsigned long long)job->policy->feedback_memory);
}

static struct cshim_residual *make_residual(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t bytes = residual_bytes(exchange);
    struct cshim_residual *residual = NULL;
    if (__atomic_add_fetch(&bytes_in_use, bytes, __ATOMIC_RELAXED) <=
        exchange->communicator->job->policy->feedback_memory)
        residual = calloc(1, sizeof *residual);
    if (residual == NULL) {
        __atomic_fetch_sub(&bytes_in_use, bytes, __ATOMIC_RELAXED);
        return NULL;
    }
    *residual = (struct cshim_residual){
        .buffer = exchange->input, .count = plan->count, .dtype = plan->dtype, .bytes = bytes};
    /* An element's residuals are at its place in the buffer. Pages are taken as they are used: in
     * hierarchical only those of this rank's share, of sums only those of the own chunks. With
     * another codec the buffer of a one_shot, which has no sums, may go by two_shot. */
    float *arrays = cshim_scratch_map(ARRAYS * plan->count * sizeof *arrays);
    if (arrays == NULL) {
        free_residual(residual);
        return NULL;
    }
    for (unsigned kind = 0; kind < CSHIM_MESSAGES; kind++)
        residual->kept[kind] = arrays + array_of[kind] * plan->count;
    return residual;
}

/* Takes the residual of the exchange's buffer out of the list, if it is there. The lock is held. */
static struct cshim_residual *take_out(const struct cshim_exchange *exchange)
{
    struct cshim_residual **link = &owner_of(exchange)->residuals;
    while (*link != NULL && (*link)->buffer != exchange->input)
        link = &(*link)->next;
    struct cshim_residual *residual = *link;
    if (residual != NULL && !residual->in_use)
        *link = residual->next;
    return residual;
}

/* The lock is held. */
static struct cshim_residual *take(const struct cshim_exchange *exchange,
                                   struct cshim_residual *known)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_communicator *owner = owner_of(exchange);
    struct cshim_residual *residual = known;
    if (known != NULL && (known->count != plan->count || known->dtype != plan->dtype)) {
        free_residual(known); /* the buffer holds something else now */
        residual = NULL;
    }
    if (residual == NULL)
        residual = make_residual(exchange);
    if (residual == NULL) {
        free_unused(owner);
        residual = make_residual(exchange);
    }
    if (residual == NULL)
        return NULL;
    residual->in_use = true;
    residual->used = ++owner->residuals_taken;
    residual->next = owner->residuals;
    owner->residuals = residual;
    return residual;
}

struct cshim_residual *cshim_residual_take(const struct cshim_exchange *exchange)
{
    struct cshim_residual *residual = NULL;
    pthread_mutex_lock(&lock);
    struct cshim_residual *known = take_out(exchange);
    const bool is_taken = known != NULL && known->in_use;
    if (!is_taken)
        residual = take(exchange, known);
    pthread_mutex_unlock(&lock);
    if (residual == NULL && !is_taken)
        warn(exchange);
    return residual;
}

void cshim_residual_give(struct cshim_residual *residual)
{
    if (residual == NULL)
        return;
    pthread_mutex_lock(&lock);
    residual->in_use = false;
    pthread_mutex_unlock(&lock);
}
