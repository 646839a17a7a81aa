/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/communicator.h"

#include <stdlib.h>

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of this, and references */
static struct cshim_nccl_comm *buckets[BUCKETS];
static size_t compressing; /* communicators with a job, ... */
static size_t reporting;   /* ... and those whose calls are counted in this process */

/* The link to a communicator; or, where the handle is not known, that to its place. */
static struct cshim_nccl_comm **link_to(ncclComm_t handle)
{
    const uintptr_t address = (uintptr_t)handle;
    struct cshim_nccl_comm **link = &buckets[(address >> 4 ^ address >> 12) % BUCKETS];
    while (*link != NULL && (*link)->comm != handle)
        link = &(*link)->next;
    return link;
}

struct cshim_nccl_comm *cshim_registry_find(ncclComm_t handle)
{
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm *comm = *link_to(handle);
    if (comm != NULL)
        comm->references++;
    pthread_mutex_unlock(&lock);
    return comm;
}

void cshim_registry_release(struct cshim_nccl_comm *comm)
{
    if (comm == NULL)
        return;
    pthread_mutex_lock(&lock);
    const unsigned left = --comm->references;
    pthread_mutex_unlock(&lock);
    if (left > 0)
        return;
    cshim_prepare_undo(comm);
    cshim_rendezvous_leave(comm->member);
    pthread_mutex_destroy(&comm->asking);
    pthread_mutex_destroy(&comm->measurement.lock);
    free(comm);
}

struct cshim_nccl_comm *cshim_registry_make(ncclComm_t *made_at, struct cshim_job *job)
{
    struct cshim_nccl_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return NULL;
    comm->made_at = made_at;
    comm->job = job;
    comm->references = 1;
    comm->reason = CSHIM_REASON_NOT_AGREED;
    pthread_mutex_init(&comm->asking, NULL);
    pthread_mutex_init(&comm->measurement.lock, NULL);
    return comm;
}

/* A communicator of the same handle is gone, though the program has not destroyed it. */
void cshim_registry_add(struct cshim_nccl_comm *comm)
{
    static uint32_t made[64]; /* atomic; devices whose numbers are 64 apart share one */
    if (comm->job != NULL)
        comm->reason = CSHIM_REASON_COMPRESS;
    if (comm->rank == 0)
        comm->counted = comm->job != NULL ? comm->job : cshim_job_native();
    cshim_registry_end(cshim_registry_take(comm->comm));
    comm->number = __atomic_fetch_add(&made[(unsigned)comm->device % 64], 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm **link = link_to(comm->comm);
    comm->next = *link;
    *link = comm;
    compressing += comm->job != NULL;
    reporting += comm->counted != NULL;
    pthread_mutex_unlock(&lock);
    struct cshim_job *job = comm->job != NULL ? comm->job : comm->counted;
    if (job != NULL)
        cshim_job_grow(job, comm->rank == 0, comm->ranks, comm->nodes);
}

void cshim_registry_describe(struct cshim_nccl_comm *comm)
{
    int rank;
    if (cshim_nccl.real->CommCount(comm->comm, &comm->ranks) != ncclSuccess ||
        cshim_nccl.real->CommUserRank(comm->comm, &rank) != ncclSuccess)
        return;
    comm->rank = rank;
    if (rank != 0)
        return;
    comm->counted = cshim_job_native();
    pthread_mutex_lock(&lock);
    reporting += comm->counted != NULL;
    pthread_mutex_unlock(&lock);
    if (comm->counted != NULL)
        cshim_job_grow(comm->counted, true, comm->ranks, comm->nodes);
}

struct cshim_nccl_comm *cshim_registry_take(ncclComm_t handle)
{
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm **link = link_to(handle), *comm = *link;
    if (comm != NULL)
        *link = comm->next;
    pthread_mutex_unlock(&lock);
    return comm;
}

void cshim_registry_end(struct cshim_nccl_comm *comm)
{
    if (comm == NULL)
        return;
    pthread_mutex_lock(&lock);
    const bool is_last = comm->job != NULL && --compressing == 0;
    const bool is_last_reporting = comm->counted != NULL && --reporting == 0;
    pthread_mutex_unlock(&lock);
    cshim_registry_release(comm);
    if (is_last_reporting)
        cshim_jobs_write_reports();
    if (is_last)
        cshim_jobs_write_trace();
}
