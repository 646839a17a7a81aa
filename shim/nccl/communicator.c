/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators that are known, by handle. */
#include <stdio.h>
#include <stdlib.h>

#include "shim/nccl/internal.h"

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards buckets and references */
static struct cshim_nccl_comm *buckets[BUCKETS];
static size_t living;    /* communicators that compress, ... */
static size_t reporting; /* ... and those of them whose rank 0 is in this process */

static struct cshim_nccl_comm **bucket_of(ncclComm_t comm)
{
    const uintptr_t address = (uintptr_t)comm;
    return &buckets[(address >> 4 ^ address >> 12) % BUCKETS];
}

struct cshim_nccl_comm *cshim_nccl_comm_find(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm *state = *bucket_of(comm);
    while (state != NULL && state->comm != comm)
        state = state->next;
    if (state != NULL)
        state->references++;
    pthread_mutex_unlock(&lock);
    return state;
}

void cshim_nccl_comm_release(struct cshim_nccl_comm *state)
{
    pthread_mutex_lock(&lock);
    const unsigned left = --state->references;
    pthread_mutex_unlock(&lock);
    if (left > 0)
        return;
    cshim_nccl_comm_unprepare(state);
    cshim_rendezvous_leave(state->member);
    pthread_mutex_destroy(&state->asking);
    free(state);
}

/* Asks NCCL; none of these waits for other ranks. */
static bool describe(struct cshim_nccl_comm *state)
{
    return cshim_nccl.real->CommCount(state->comm, &state->ranks) == ncclSuccess &&
           cshim_nccl.real->CommUserRank(state->comm, &state->rank) == ncclSuccess &&
           cshim_nccl.real->CommCuDevice(state->comm, &state->device) == ncclSuccess;
}

struct cshim_nccl_comm *cshim_nccl_comm_make(const struct cshim_newcomer *newcomer, char *why,
                                             size_t size)
{
    struct cshim_nccl_comm *state = calloc(1, sizeof *state);
    if (state == NULL) {
        snprintf(why, size, "no memory for a communicator");
        return NULL;
    }
    state->comm = *newcomer->comm;
    state->references = 1;
    state->rank = newcomer->rank;
    state->ranks = newcomer->ranks;
    state->reason = newcomer->nonblocking ? CSHIM_REASON_NONBLOCKING : CSHIM_REASON_NOT_AGREED;
    pthread_mutex_init(&state->asking, NULL);
    if (newcomer->nonblocking || describe(state))
        return state;
    snprintf(why, size, "NCCL does not describe the communicator");
    cshim_nccl_comm_release(state);
    return NULL;
}

void cshim_nccl_comm_abort(struct cshim_nccl_comm *state)
{
    pthread_mutex_lock(&state->asking);
    __atomic_store_n(&state->aborted, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&state->asking);
}

void cshim_nccl_comm_add(struct cshim_nccl_comm *state, struct cshim_nccl_job *job, uint32_t nodes)
{
    const ncclComm_t comm = state->comm;
    state->job = job;
    state->nodes = nodes;
    if (job != NULL)
        state->reason = CSHIM_REASON_COMPRESS;
    if (state->rank == 0)
        state->counted = job != NULL ? job : cshim_nccl_job_native();
    cshim_nccl_comm_end(cshim_nccl_comm_take(comm)); /* one that was not destroyed, but is gone */
    pthread_mutex_lock(&lock);
    state->next = *bucket_of(comm);
    *bucket_of(comm) = state;
    living += job != NULL;
    reporting += state->counted != NULL;
    pthread_mutex_unlock(&lock);
    if (job == NULL)
        job = state->counted;
    if (job != NULL)
        cshim_nccl_job_grow(job, state->rank == 0, state->ranks, nodes);
}

struct cshim_nccl_comm *cshim_nccl_comm_take(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm **place = bucket_of(comm);
    while (*place != NULL && (*place)->comm != comm)
        place = &(*place)->next;
    struct cshim_nccl_comm *state = *place;
    if (state != NULL)
        *place = state->next;
    pthread_mutex_unlock(&lock);
    return state;
}

void cshim_nccl_comm_end(struct cshim_nccl_comm *state)
{
    if (state == NULL)
        return;
    pthread_mutex_lock(&lock);
    const bool is_last = state->job != NULL && --living == 0;
    const bool is_last_reporting = state->counted != NULL && --reporting == 0;
    pthread_mutex_unlock(&lock);
    cshim_nccl_comm_release(state);
    if (is_last_reporting)
        cshim_nccl_job_report();
    if (is_last)
        cshim_nccl_job_trace();
}
