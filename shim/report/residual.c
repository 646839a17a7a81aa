/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/residual.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/core/log.h"

/* A residual may be freed once this number of calls with residuals on its communicator have not
 * used it. */
enum { CALLS_UNUSED = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all lists */
static uint64_t bytes_in_use; /* bytes of all residuals of this process */

/* Unlinks and frees a residual. The lock is held. */
static void free_residual(struct cshim_residuals *residuals, struct cshim_residual **link)
{
    struct cshim_residual *residual = *link;
    *link = residual->next;
    bytes_in_use -= residual->bytes;
    residuals->release(residuals->owner, residual);
    free(residual);
}

void cshim_residuals_free(struct cshim_residuals *residuals)
{
    pthread_mutex_lock(&lock);
    while (residuals->first != NULL)
        free_residual(residuals, &residuals->first);
    pthread_mutex_unlock(&lock);
}

void cshim_residuals_abandon(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    bytes_in_use = 0;
}

/* Frees residuals of a buffer, which now holds another tensor, and those that no call has used for
 * a long time, except those that a call under way or a CUDA graph uses. The lock is held. */
static void free_unused(struct cshim_residuals *residuals, const void *buffer)
{
    struct cshim_residual **link = &residuals->first, *residual;
    while ((residual = *link) != NULL)
        if (residual->users > 0 || residual->in_graph ||
            (residual->buffer != buffer && residuals->acquired - residual->used < CALLS_UNUSED))
            link = &residual->next;
        else
            free_residual(residuals, link);
}

/* Makes a residual, the first of its list. Returns false if all residuals would exceed `limit`
 * bytes, or without memory. The lock is held. */
static bool make_residual(struct cshim_residuals *residuals, const struct cshim_residual *wanted,
                          uint64_t limit)
{
    if (bytes_in_use + wanted->bytes > limit)
        return false;
    struct cshim_residual *residual = malloc(sizeof *residual);
    if (residual == NULL)
        return false;
    *residual = *wanted;
    residual->next = residuals->first;
    residuals->first = residual;
    bytes_in_use += residual->bytes;
    if (residuals->allocate(residuals->owner, residual))
        return true;
    free_residual(residuals, &residuals->first);
    return false;
}

/* Moves the residual that is wanted to the front of the list. Returns false if there is none. The
 * lock is held. */
static bool find_residual(struct cshim_residuals *residuals, const struct cshim_residual *wanted)
{
    struct cshim_residual **link = &residuals->first, *residual;
    while ((residual = *link) != NULL &&
           (residual->buffer != wanted->buffer || residual->count != wanted->count ||
            residual->dtype != wanted->dtype))
        link = &residual->next;
    if (residual == NULL)
        return false;
    *link = residual->next;
    residual->next = residuals->first;
    residuals->first = residual;
    return true;
}

/* Warns, once per process, that there is no memory for another residual. */
static void warn_no_memory(const struct cshim_residual *wanted, const struct cshim_policy *policy,
                           const struct cshim_rule *rule, int rank)
{
    static bool has_warned;
    if (__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED))
        return;
    cshim_log(CSHIM_LOG_WARN,
              "rule '%s': no memory for another residual of %llu bytes on rank %d "
              "(feedback_memory = %llu): such buffers go on without error feedback",
              rule->name, (unsigned long long)wanted->bytes, rank,
              (unsigned long long)policy->feedback_memory);
}

struct cshim_residual *cshim_residual_acquire(struct cshim_residuals *residuals,
                                              const struct cshim_residual *wanted, bool may_make,
                                              const struct cshim_policy *policy,
                                              const struct cshim_rule *rule, int rank)
{
    struct cshim_residual *residual = NULL;
    pthread_mutex_lock(&lock);
    bool is_there = find_residual(residuals, wanted);
    const bool is_busy = is_there && residuals->is_exclusive && residuals->first->users > 0;
    if (!is_there && may_make) {
        is_there = make_residual(residuals, wanted, policy->feedback_memory);
        if (!is_there) {
            free_unused(residuals, wanted->buffer);
            is_there = make_residual(residuals, wanted, policy->feedback_memory);
        }
    }
    if (is_there && !is_busy) {
        residual = residuals->first;
        residual->users++;
        residual->used = ++residuals->acquired;
    }
    pthread_mutex_unlock(&lock);
    if (!is_there && may_make)
        warn_no_memory(wanted, policy, rule, rank);
    return residual;
}

void cshim_residual_release(struct cshim_residual *residual)
{
    if (residual == NULL)
        return;
    pthread_mutex_lock(&lock);
    residual->users--;
    pthread_mutex_unlock(&lock);
}
