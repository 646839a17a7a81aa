/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/feedback.h"

#include <sys/mman.h>

#include "shim/host/scratch.h"

/* Number of arrays of a residual, each with a value for every element of the call: one for this
 * rank's contributions, one for the reduced chunks that it encodes, one for a grid's row sums. */
enum { ARRAYS = 3 };

float *cshim_feedback_values(const struct cshim_residual *residual, enum cshim_message message)
{
    /* A grid's reduced pieces use the array of reduced chunks, which a grid does not encode. */
    static const unsigned array_of[CSHIM_MESSAGES] = {0, 1, 2, 1};
    return (float *)(uintptr_t)residual->memory + array_of[message] * residual->count;
}

/* Estimates the bytes of a residual that this call's algorithm uses: those of this rank's share
 * and, with chunks, of the elements that this rank adds up; in a grid it adds up elements for its
 * row and for its column. In a broadcast all ranks count the root's share, because a later
 * broadcast of the same buffer may have another root. */
static uint64_t residual_bytes(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t elements =
        plan->collective == CSHIM_BROADCAST ? plan->count : exchange->source.length;
    const uint64_t share = elements / plan->shares * sizeof(float);
    if (plan->schedule->division != CSHIM_CHUNKS)
        return share;
    return share + share / plan->peers + (plan->grid.rows > 1 ? share / plan->grid.columns : 0);
}

/* Maps the arrays of a residual, in which elements have the same index as in the buffer. The system
 * allocates pages when they are first used: only those of this rank's share and owned chunks.
 * one_shot encodes no sums, but has their arrays, too, because a later call with the same buffer
 * may be made by two_shot. */
static bool map_residual(void *owner, struct cshim_residual *residual)
{
    (void)owner;
    residual->memory = (uintptr_t)cshim_scratch_map(ARRAYS * residual->count * sizeof(float));
    return residual->memory != 0;
}

static void unmap_residual(void *owner, struct cshim_residual *residual)
{
    (void)owner;
    if (residual->memory != 0)
        munmap((void *)(uintptr_t)residual->memory, ARRAYS * residual->count * sizeof(float));
}

struct cshim_residual *cshim_feedback_acquire(const struct cshim_exchange *exchange)
{
    struct cshim_communicator *communicator = exchange->communicator;
    const struct cshim_job *job = communicator->job;
    struct cshim_residuals *residuals =
        &(communicator->whole != NULL ? communicator->whole : communicator)->residuals;
    const struct cshim_residual wanted = {.buffer = exchange->input,
                                          .count = exchange->plan->count,
                                          .dtype = exchange->plan->dtype,
                                          .bytes = residual_bytes(exchange)};
    return cshim_residual_acquire(residuals, &wanted, true, job->policy, exchange->plan->rule,
                                  job->rank);
}

const struct cshim_residuals cshim_feedback_none = {
    .allocate = map_residual, .release = unmap_residual, .is_exclusive = true};
