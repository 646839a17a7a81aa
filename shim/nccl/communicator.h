/* SPDX-License-Identifier: Apache-2.0 */
/* The process; what the engine knows of a communicator; and the communicators that it knows, by
 * NCCL's handle. A handle may become another communicator's after it was destroyed. All functions
 * are thread-safe, those of prepare.c for different communicators. */
#ifndef CSHIM_NCCL_COMMUNICATOR_H
#define CSHIM_NCCL_COMMUNICATOR_H

#include <nccl.h>
#include <stdatomic.h>

#include "kernels/driver.h"
#include "shim/core/log.h"
#include "shim/nccl/engine.h"
#include "shim/nccl/rendezvous.h"

/* Set when the engine starts, and constant afterwards. */
struct cshim_nccl_process {
    const struct cshim_nccl_real *real; /* NCCL's own functions: nothing else may be called */
    uint64_t fingerprint;               /* of this library: the ranks must agree in it */
};
extern struct cshim_nccl_process cshim_nccl;

/* Events of a communicator. While all of them are under way, what comes is not divided or not
 * timed. */
#define CSHIM_EVENTS 1024
/* measure.c: the times of a communicator's calls. */
struct cshim_measurement {
    pthread_mutex_t lock;         /* guards all of it: another thread may abort the communicator */
    struct cshim_timeline *first; /* under way, in the order of the calls */
    struct cshim_timeline *last;
    CUevent base; /* for traces: it happened at base_at of the host's clock; or NULL */
    double base_at;
    size_t made;
    size_t free_count;
    CUevent free[CSHIM_EVENTS];
};

struct cshim_nccl_comm {
    ncclComm_t comm;           /* NULL: it is being made, ... */
    ncclComm_t *made_at;       /* ... and its handle will be here */
    unsigned references;       /* one as it is known, and one for each thread that works with it */
    struct cshim_job *job;     /* NULL: its ranks have not agreed on one */
    struct cshim_job *counted; /* at rank 0: where its calls are counted; else NULL */
    enum cshim_reason reason;  /* CSHIM_REASON_COMPRESS, or why no call is compressed */
    int rank;
    int ranks;
    bool settled;       /* with a job */
    bool nonblocking;   /* a thread of ours does the work, as NCCL's does: background.c */
    atomic_int working; /* ncclInProgress while it does; then what became of it */
    struct cshim_nccl_comm *next_newcomer; /* that is being made in the same group */
    struct cshim_member *member;           /* of the rendezvous where its ranks agree, or NULL */
    struct cshim_tag reached_at; /* this process by the other ranks; family 0: not known */
    uint64_t grown;              /* communicators that have grown from it */
    pthread_mutex_t asking;      /* held while NCCL is asked about it; the end of a handle waits */
    atomic_bool aborted;         /* its handle may not be used any more */

    /* The rest serves compressed calls. prepare.c fills it in at the first one. */
    bool prepared;
    ncclResult_t failed;                  /* the preparation: every later one fails like it */
    struct cshim_fact_exchange *exchange; /* of the preparation under way */
    CUdevice device;
    CUcontext context; /* the device's primary one */
    int processors;
    int priority;    /* of the stream of its first compressed call */
    CUstream stream; /* of this priority: for kernels, the preparation and the end */
    struct cshim_workspace *workspace;
    CUstream runs_on; /* what NCCL does for the calls of a group: the first one's stream */
    CUstream kernels; /* their kernels: `stream` or a graph's, where batches overlap, or the same */
    bool connected[2];     /* all its ranks; and, where messages go across nodes, those */
    cuuint64_t capture_id; /* of the graph of the last captured call, ... */
    struct cshim_workspace *capture_workspace; /* ... where the messages of its calls lie, ... */
    uint64_t capture_bytes;                    /* ... and how much the graph holds */
    uint32_t nodes; /* 0: not known, before the ranks of a child have met */
    uint32_t node;  /* this rank's */
    uint32_t local_rank;
    uint32_t *ranks_by_node; /* node by node, in the order of their local ranks */
    uint32_t ranks_per_node; /* 0 where nodes hold different numbers of ranks */
    ncclComm_t inside;       /* hierarchical: the ranks of this node, ... */
    ncclComm_t across;       /* ... and those of this local rank on all nodes */
    uint32_t number;         /* in the order in which those of its device were made, from 0 */
    uint32_t sequence;       /* number of the latest compressed call */
    uint32_t *calls_by_rule; /* calls that were not captured: they choose what is sampled */
    uint32_t sampled;        /* sampled calls of the group under way */
    struct cshim_sample_slot *samples; /* the workspace's, at rank 0; NULL: none are compared */
    struct cshim_measurement measurement;
    struct cshim_choosing *choosing; /* NULL: no rule's calls are measured */
    CUmemoryPool residual_pool;
    struct cshim_residual *residuals;
    struct cshim_nccl_comm *next;
};

/* What is known of a communicator, with a reference for the caller, which the caller releases. NULL
 * if nothing is known. */
struct cshim_nccl_comm *cshim_registry_find(ncclComm_t comm);
/* What a communicator holds goes with its last reference. Releasing NULL does nothing. */
void cshim_registry_release(struct cshim_nccl_comm *comm);

/* A communicator that is being made, by the place of its handle. Its ranks agree by way of the
 * rendezvous if it gets a member, or have agreed on a job; without both it stays native. The caller
 * adds it or releases it. Returns NULL without memory. */
struct cshim_nccl_comm *cshim_registry_make(ncclComm_t *made_at, struct cshim_job *job);

/* Adds a communicator whose handle is there. Takes the reference over. */
void cshim_registry_add(struct cshim_nccl_comm *comm);

/* It has been described, and its ranks have decided: its calls are counted, and compressed if it
 * has a job. */
void cshim_registry_settle(struct cshim_nccl_comm *comm);

/* Takes a communicator out before its handle can become another's; NULL if it is not known. The
 * caller ends it, which writes the reports that are due if it was the last. Ending NULL does
 * nothing. */
struct cshim_nccl_comm *cshim_registry_take(ncclComm_t comm);
void cshim_registry_end(struct cshim_nccl_comm *comm);

/* background.c: non-blocking communicators. NCCL returns ncclInProgress from their calls and
 * enqueues on a thread of its own, and the program asks ncclCommGetAsyncError until that is done.
 * What the engine does for them, it does on a thread as well, one for each group of calls, and says
 * ncclInProgress as long. */

/* This thread works for these communicators. The list outlives the work. */
void cshim_background_begin(struct cshim_nccl_comm *const *comms, size_t count);
/* Whether this thread is one that works so. */
bool cshim_background_is(void);
/* Waits until NCCL has done what this thread has told it for its communicators. Returns an error if
 * one has failed or been aborted. */
ncclResult_t cshim_background_await(void);
/* Ends a group of NCCL, and waits for it on such a thread. Returns the first error: what became of
 * the group before, or its end. */
ncclResult_t cshim_nccl_end_group(ncclResult_t status);
/* What NCCL says of a communicator, or else of its levels. ncclSystemError: it has been aborted. */
ncclResult_t cshim_nccl_state(struct cshim_nccl_comm *comm);
/* The same of its levels alone. */
ncclResult_t cshim_nccl_levels_state(struct cshim_nccl_comm *comm);
/* Waits until no thread works for a communicator that ends. */
void cshim_background_leave(const struct cshim_nccl_comm *comm);

/* prepare.c: the preparation of communicators: what compressed calls need is made at the first one,
 * by all ranks together. They tell each other through NCCL itself whether they can compress.
 *
 * What the telling needs is reserved when the communicator is made, while a rank without it can
 * still say so at the rendezvous. From then on a preparation fails only if CUDA or NCCL fails, or a
 * process ends. Then the other ranks hear of it by way of the rendezvous. */

/* Makes sure that the ranks can tell each other what they need to; or tells why this rank cannot.
 */
void cshim_prepare_reserve(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX]);

/* Prepares, all at once, the communicators of which these are the first compressed calls. Those of
 * which it is not known how many nodes hold their ranks find that out first: it may be that the
 * rules pass the calls on. That takes the same course on all ranks: a communicator may get a reason
 * why it does not compress. Waits for the other ranks as NCCL's own first call does, and for the
 * GPU. */
struct cshim_nccl_call;
ncclResult_t cshim_prepare(const struct cshim_nccl_call *calls, size_t count);

/* Gives back what the preparation has made. */
void cshim_prepare_undo(struct cshim_nccl_comm *comm);

#endif
