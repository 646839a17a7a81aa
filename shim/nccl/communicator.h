/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's state of the process and of each communicator, and a registry that finds a
 * communicator by NCCL's handle. NCCL may reuse a handle after the communicator was destroyed, so
 * the registry drops a communicator before NCCL does. All functions are thread-safe. */
#ifndef CSHIM_NCCL_COMMUNICATOR_H
#define CSHIM_NCCL_COMMUNICATOR_H

#include <nccl.h>
#include <stdatomic.h>

#include "kernels/driver.h"
#include "shim/core/layout.h"
#include "shim/core/log.h"
#include "shim/nccl/engine.h"
#include "shim/nccl/rendezvous.h"
#include "shim/report/residual.h"

/* Set when the engine starts, and constant afterwards. */
struct cshim_nccl_process {
    /* NCCL's own functions. The engine calls NCCL only through these; NCCL's symbols would lead
     * back to the front. */
    const struct cshim_nccl_real *real;
    uint64_t fingerprint; /* fingerprint of protocol and codecs: equal on ranks that compress */
};
extern struct cshim_nccl_process cshim_nccl;

/* Maximum number of a communicator's CUDA events for timing. When all of them are in use, calls are
 * not timed. */
#define CSHIM_EVENTS 1024
/* State of measure.c: durations of a communicator's calls. */
struct cshim_measurement {
    pthread_mutex_t lock; /* guards all fields, because another thread may abort the communicator;
                             not held in cshim_measure_make() and cshim_measure_free() */
    struct cshim_timeline *first; /* timelines to read, in the order of the calls */
    struct cshim_timeline *last;
    CUevent base;   /* for traces: event whose host time is known; or NULL */
    double base_at; /* host time at which `base` occurred */
    size_t made;    /* number of events made */
    size_t free_count;
    CUevent free[CSHIM_EVENTS];
};

struct cshim_nccl_comm {
    ncclComm_t comm;          /* NCCL's handle; NULL while NCCL makes the communicator */
    ncclComm_t *made_at;      /* variable that NCCL writes the handle to: the program's or, with a
                                 parent, one of the engine */
    ncclComm_t *published_at; /* with a parent: the program's variable for the handle */
    struct cshim_nccl_comm *parent; /* nonblocking parent while it makes this one; then NULL */
    unsigned references;       /* count: one for the registry, one for each user (thread or call) */
    struct cshim_job *job;     /* NULL if the ranks have not agreed on one */
    struct cshim_job *counted; /* rank 0: job whose ledger counts the calls; else NULL */
    enum cshim_reason reason;  /* CSHIM_REASON_COMPRESS, or why no call is compressed */
    int rank;
    int ranks;
    bool settled;       /* the ranks have agreed on a job */
    bool nonblocking;   /* a background thread enqueues its compressed calls */
    atomic_int working; /* ncclInProgress while a background thread works for it, then the status of
                           that thread */
    struct cshim_nccl_comm *next_newcomer; /* next communicator made in the same group */
    struct cshim_member *member;           /* this rank's side of the rendezvous, or NULL */
    struct cshim_tag
        reached_at;         /* address at which other ranks reach this process; family 0: unknown */
    uint64_t grown;         /* number of communicators that have grown from this one */
    pthread_mutex_t asking; /* held to query the handles' state, to clear handles or `member`, to
                               set `stopped`, and to set `working` to ncclInProgress */
    atomic_int stopped;     /* ncclSuccess, or the error of compressed calls since the program has
                               aborted it (ncclSystemError: its handle may not be used any more) or
                               revoked it (ncclInvalidUsage; of a nonblocking one only until
                               ncclCommRevoke returns). Also ends the waits for other
                               communicators whose calls are in a group with its calls */

    /* Fields for compressed calls. */
    bool prepared;
    ncclResult_t failed; /* error of the preparation; later calls to compress return it, too */
    struct cshim_state_exchange *exchange; /* memory of the preparation in progress */
    CUdevice device;
    CUcontext context; /* primary context of the device */
    int processors;    /* number of the device's multiprocessors */
    int priority;      /* priority of the stream of the first compressed call */
    CUstream stream;   /* engine's stream, with `priority`: kernels, freeing, relating clocks */
    struct cshim_workspace *workspace;
    CUstream runs_on;  /* stream for NCCL's operations in a group: the first compressed call's */
    CUstream kernels;  /* stream for kernels in a group: if batches overlap, `stream` or a graph's;
                          otherwise `runs_on` */
    bool connected[2]; /* [0]: NCCL has connected all ranks of `comm`; [1]: of `across` */
    cuuint64_t capture_id;                     /* id of the latest capture of compressed calls */
    struct cshim_workspace *capture_workspace; /* latest workspace of the graph of capture_id */
    uint64_t capture_bytes; /* total size of the workspaces of the graph of capture_id */
    uint32_t nodes; /* number of nodes; 0: unknown, as, before cshim_prepare(), in a child with only
                       some ranks of a multi-node parent */
    struct cshim_layout layout;
    ncclComm_t inside;       /* hierarchical: intra-node communicator (all ranks of this node) */
    ncclComm_t across;       /* hierarchical: inter-node communicator (one rank of each node) */
    uint32_t number;         /* index among the communicators made for this device, from 0 */
    uint32_t sequence;       /* number of the latest compressed call */
    uint32_t *calls_by_rule; /* number of compressed, not captured calls of each rule */
    uint32_t sampled;        /* number of sampled calls in the current group */
    struct cshim_sample_slot *samples; /* slots of the workspace (rank 0); NULL: no comparison */
    struct cshim_measurement measurement;
    struct cshim_choosing *choosing; /* NULL: no rule's calls are measured */
    CUmemoryPool residual_pool;
    struct cshim_residuals residuals;
    struct cshim_nccl_comm *next;
};

/* Returns the communicator of a handle, with a reference that the caller releases; NULL if the
 * registry does not have it. */
struct cshim_nccl_comm *cshim_registry_find(ncclComm_t comm);
/* Releases a reference; the last one frees the communicator and what it holds. NULL is allowed. */
void cshim_registry_release(struct cshim_nccl_comm *comm);

/* Makes the state of a communicator whose handle NCCL writes, perhaps later, to *made_at. `job`:
 * the job that the ranks have agreed on. NULL: they agree at the rendezvous if the caller sets
 * comm->member; otherwise all calls are passed through. The caller adds the communicator to the
 * registry or releases it. Returns NULL without memory. */
struct cshim_nccl_comm *cshim_registry_make(ncclComm_t *made_at, struct cshim_job *job);

/* Adds a communicator, whose `comm` is set by now, to the registry. Takes over the reference. */
void cshim_registry_add(struct cshim_nccl_comm *comm);

/* Starts to count the communicator's calls (at rank 0) and, if it has a job, to compress them.
 * Called when the ranks have decided, after rank, ranks, device and job are set. */
void cshim_registry_settle(struct cshim_nccl_comm *comm);

/* Removes a communicator from the registry, before NCCL can reuse the handle. Returns it, or NULL
 * if the registry does not have it. The caller passes it to cshim_registry_end. */
struct cshim_nccl_comm *cshim_registry_take(ncclComm_t comm);
/* Releases a removed communicator. After the last one whose calls this process counts, writes the
 * reports; after the last one with a job, writes the trace. NULL is allowed. */
void cshim_registry_end(struct cshim_nccl_comm *comm);

#endif
