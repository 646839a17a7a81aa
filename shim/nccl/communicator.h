/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of a communicator. registry.h finds it by NCCL's handle. */
#ifndef CSHIM_NCCL_COMMUNICATOR_H
#define CSHIM_NCCL_COMMUNICATOR_H

#include "kernels/loader.h"
#include "shim/nccl/premul.h"

struct cshim_nccl_comm {
    ncclComm_t comm;
    unsigned references;            /* the registry's, and one for each thread that works with it */
    struct cshim_nccl_job *job;     /* NULL: its ranks have not agreed on one */
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

#endif
