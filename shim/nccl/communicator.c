/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/communicator.h"

#include <stdlib.h>

#include "shim/nccl/prepare.h"
#include "shim/report/process.h"

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards buckets and all references */
static struct cshim_nccl_comm *buckets[BUCKETS];
static atomic_size_t compressing; /* number of communicators with a job */
static atomic_size_t reporting;   /* number of communicators whose calls this process counts */

/* Returns the link to a communicator; if the handle is not known, the end of its bucket's list. */
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

/* At rank 0, sets the job whose ledger counts the communicator's calls. Raises the job's numbers of
 * ranks and nodes to those of the communicator. */
static void find_counting(struct cshim_nccl_comm *comm)
{
    struct cshim_job *job = comm->job;
    if (comm->rank == 0)
        comm->counted = job = job != NULL ? job : cshim_job_native();
    reporting += comm->counted != NULL;
    if (job != NULL)
        cshim_job_grow(job, comm->rank == 0, comm->ranks, comm->nodes);
}

/* Ends a known communicator with the same handle first: NCCL has made a new one at its address, so
 * the known one no longer exists, although the program did not destroy it. */
void cshim_registry_add(struct cshim_nccl_comm *comm)
{
    cshim_registry_end(cshim_registry_take(comm->comm));
    pthread_mutex_lock(&lock);
    struct cshim_nccl_comm **link = link_to(comm->comm);
    comm->next = *link;
    *link = comm;
    pthread_mutex_unlock(&lock);
}

void cshim_registry_settle(struct cshim_nccl_comm *comm)
{
    static uint32_t made[64]; /* number of communicators made, by device modulo 64; atomic */
    comm->number = __atomic_fetch_add(&made[(unsigned)comm->device % 64], 1, __ATOMIC_RELAXED);
    if (comm->job != NULL)
        comm->reason = CSHIM_REASON_COMPRESS;
    comm->settled = comm->job != NULL;
    compressing += comm->settled;
    find_counting(comm);
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
    const bool is_last = comm->settled && --compressing == 0;
    const bool is_last_reporting = comm->counted != NULL && --reporting == 0;
    cshim_registry_release(comm);
    if (is_last_reporting)
        cshim_jobs_write_reports();
    if (is_last)
        cshim_jobs_write_trace();
}
