/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: the rounding error of each element is stored and added at the next call.
 *
 * A residual belongs to a communicator, buffer, count and type. It changes the numbers that a rank
 * sends, nothing else, so a rank without memory for one continues without. So does a call whose
 * buffer is the input of another call under way. A buffer may hold another tensor than at the last
 * call: that is harmless, because codecs add at most one quantization step of a residual. */
#include "shim/host/feedback.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/core/log.h"
#include "shim/host/scratch.h"

/* A residual is freed if this number of calls with residuals on its communicator have not used it.
 */
enum { CALLS_UNUSED = 4096 };
/* Index of the array for each kind of message. Row sums and column sums share one: an owner encodes
 * each sum only once. */
static const unsigned array_of[CSHIM_MESSAGES] = {0, 1, 2, 1};
enum { ARRAYS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all lists */
static uint64_t bytes_in_use; /* of all residuals of this process; atomic */

static void free_residual(struct cshim_residual *residual)
{
    __atomic_fetch_sub(&bytes_in_use, residual->bytes, __ATOMIC_RELAXED);
    if (residual->values[0] != NULL)
        munmap(residual->values[0], ARRAYS * residual->count * sizeof(float));
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

/* Returns the communicator that holds the residuals of an exchange. */
static struct cshim_communicator *owner_of(const struct cshim_exchange *exchange)
{
    struct cshim_communicator *communicator = exchange->communicator;
    return communicator->whole != NULL ? communicator->whole : communicator;
}

/* Frees the residuals of a communicator that no call has used for a long time. */
static void free_unused(struct cshim_communicator *communicator)
{
    struct cshim_residual **link = &communicator->residuals, *residual;
    while ((residual = *link) != NULL)
        if (residual->in_use || communicator->residuals_used - residual->used < CALLS_UNUSED) {
            link = &residual->next;
        } else {
            *link = residual->next;
            free_residual(residual);
        }
}

/* Returns the bytes that the pages of a residual will use: this rank's share, its owned chunk, and
 * in a grid its piece of the chunk. */
static uint64_t residual_bytes(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t share = exchange->source.length / plan->shares * sizeof(float);
    if (plan->schedule->division != CSHIM_CHUNKS)
        return share;
    return share + share / plan->peers + (plan->grid.rows > 1 ? share / plan->grid.columns : 0);
}

/* Warns, once per process, that there is no memory for another residual. */
static void warn_no_memory(const struct cshim_exchange *exchange)
{
    static bool has_warned;
    const struct cshim_job *job = exchange->communicator->job;
    if (__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED))
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
    /* Residuals have the offsets of their elements in the buffer. Pages are allocated by the system
     * when first used: only those of this rank's share and owned chunks. The arrays for sums exist
     * even for one_shot, which has none, because the same buffer may go by two_shot with another
     * codec. */
    float *arrays = cshim_scratch_map(ARRAYS * plan->count * sizeof *arrays);
    if (arrays == NULL) {
        free_residual(residual);
        return NULL;
    }
    for (unsigned kind = 0; kind < CSHIM_MESSAGES; kind++)
        residual->values[kind] = arrays + array_of[kind] * plan->count;
    return residual;
}

/* Removes the residual of the exchange's buffer from the list, if it is there and not in use.
 * Returns it in either case, or NULL if there is none. The lock is held. */
static struct cshim_residual *unlink_residual(const struct cshim_exchange *exchange)
{
    struct cshim_residual **link = &owner_of(exchange)->residuals;
    while (*link != NULL && (*link)->buffer != exchange->input)
        link = &(*link)->next;
    struct cshim_residual *residual = *link;
    if (residual != NULL && !residual->in_use)
        *link = residual->next;
    return residual;
}

/* Returns the residual to use: `known` if it fits, otherwise a new one; NULL without memory. The
 * lock is held. */
static struct cshim_residual *acquire_residual(const struct cshim_exchange *exchange,
                                               struct cshim_residual *known)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_communicator *owner = owner_of(exchange);
    struct cshim_residual *residual = known;
    if (known != NULL && (known->count != plan->count || known->dtype != plan->dtype)) {
        free_residual(known); /* the buffer now holds another tensor */
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
    residual->used = ++owner->residuals_used;
    residual->next = owner->residuals;
    owner->residuals = residual;
    return residual;
}

struct cshim_residual *cshim_residual_acquire(const struct cshim_exchange *exchange)
{
    struct cshim_residual *residual = NULL;
    pthread_mutex_lock(&lock);
    struct cshim_residual *known = unlink_residual(exchange);
    const bool is_busy = known != NULL && known->in_use;
    if (!is_busy)
        residual = acquire_residual(exchange, known);
    pthread_mutex_unlock(&lock);
    if (residual == NULL && !is_busy)
        warn_no_memory(exchange);
    return residual;
}

void cshim_residual_release(struct cshim_residual *residual)
{
    if (residual == NULL)
        return;
    pthread_mutex_lock(&lock);
    residual->in_use = false;
    pthread_mutex_unlock(&lock);
}
