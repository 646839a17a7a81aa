/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of a communicator, and the communicators that it knows, by NCCL's handle. A
 * handle may become another communicator's after it was destroyed. All functions are thread-safe.
 */
#ifndef CSHIM_NCCL_COMMUNICATOR_H
#define CSHIM_NCCL_COMMUNICATOR_H

#include "kernels/loader.h"
#include "shim/nccl/premul.h"

struct cshim_nccl_comm {
    ncclComm_t comm;
    unsigned references;        /* one as it is known, and one for each thread that works with it */
    struct cshim_nccl_job *job; /* NULL: its ranks have not agreed on one */
    struct cshim_nccl_job *counted; /* at rank 0: where its calls are counted; else NULL */
    enum cshim_reason reason;       /* CSHIM_REASON_COMPRESS, or why no call is compressed */
    int rank;
    int ranks;
    struct cshim_member *member; /* of the rendezvous where its ranks agreed, or NULL */
    pthread_mutex_t asking;      /* held while NCCL is asked about it; an abort waits for that */
    bool aborted;                /* atomic: its handle may not be used any more */

    /* The rest serves compressed calls. prepare.c fills it in at the first one. */
    bool prepared;
    ncclResult_t failed;                  /* the preparation: every later one fails like it */
    struct cshim_fact_exchange *exchange; /* of the preparation under way */
    struct cshim_cuda cuda;
    CUdevice device;
    CUcontext context; /* the device's primary one */
    uint32_t processors;
    CUstream stream; /* for the preparation and the end */
    struct cshim_workspace *workspace;
    cuuint64_t capture_id;                     /* of the graph of the last captured call, ... */
    struct cshim_workspace *capture_workspace; /* ... and what the graph holds */
    uint32_t nodes;
    uint32_t node; /* this rank's */
    uint32_t local_rank;
    uint32_t ranks_per_node;       /* 0 where nodes hold different numbers of ranks */
    ncclComm_t inside;             /* hierarchical: the ranks of this node, ... */
    ncclComm_t across;             /* ... and those of this local rank on all nodes */
    uint32_t sequence;             /* number of the latest compressed call */
    uint32_t *calls_by_rule;       /* calls that were not captured: they choose what is sampled */
    uint32_t sampled;              /* sampled calls of the group under way */
    struct cshim_samples *samples; /* the workspace's, at rank 0; NULL: none are compared */
    struct cshim_measurement *measurement; /* or NULL: calls are not timed */
    CUmemoryPool pool;                     /* of the residuals */
    struct cshim_residual *residuals;
    struct cshim_nccl_comm *next;
};

static inline bool cshim_nccl_is_aborted(const struct cshim_nccl_comm *comm)
{
    return __atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE);
}

/* What is known of a communicator, with a reference for the caller, which the caller releases. NULL
 * if nothing is known. */
struct cshim_nccl_comm *cshim_registry_find(ncclComm_t comm);
/* What a communicator holds goes with its last reference. Releasing NULL does nothing. */
void cshim_registry_release(struct cshim_nccl_comm *comm);

/* Asks NCCL about a communicator that has just been made. A nonblocking one may still be in the
 * making: nothing is asked, and `ranks` and `rank` are taken as they are. The caller adds the
 * communicator or releases it. Returns NULL, and why, if NCCL does not tell or there is no
 * memory. */
struct cshim_nccl_comm *cshim_registry_make(ncclComm_t handle, bool nonblocking, int ranks,
                                            int rank, char *why, size_t size);

/* Adds a communicator, with the job that its ranks have agreed on (NULL: they have not). `nodes`
 * hold its ranks; 0 if that is not known yet. Takes the reference over. */
void cshim_registry_add(struct cshim_nccl_comm *comm, struct cshim_nccl_job *job, uint32_t nodes);

/* Takes a communicator out before its handle can become another's; NULL if it is not known. The
 * caller ends it, which writes the reports that are due if it was the last. Ending NULL does
 * nothing. */
struct cshim_nccl_comm *cshim_registry_take(ncclComm_t comm);
void cshim_registry_end(struct cshim_nccl_comm *comm);

#endif
