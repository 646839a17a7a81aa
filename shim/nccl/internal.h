/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the NCCL engine. NCCL is called through cshim_nccl.real only: its names would come back to
 * the front. Nothing here waits for a GPU but the preparation of a communicator. */
#ifndef CSHIM_NCCL_INTERNAL_H
#define CSHIM_NCCL_INTERNAL_H

#include <nccl.h>
#include <pthread.h>

#include "kernels/loader.h"
#include "shim/nccl/engine.h"
#include "shim/core/clock.h"
#include "shim/core/header.h"
#include "shim/report/ledger.h"
#include "shim/core/log.h"
#include "shim/nccl/lap.h"
#include "shim/nccl/rendezvous.h"
#include "shim/report/observed.h"
#include "shim/core/sample.h"

/* A policy and what was counted under it: one for all communicators that were given that policy. */
struct cshim_nccl_job {
    struct cshim_policy *policy;
    char sha256[65];
    struct cshim_ledger ledger;
    uint32_t ranks; /* of the largest communicator whose rank 0 is in this process */
    uint32_t nodes;
    double started;
    struct cshim_observed *observed; /* COMPSHIM=observe: nothing is compressed; else NULL */
    bool is_timed;                   /* somebody will want to know how long calls take */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE: events are kept; else NULL */
    bool due;                        /* something was counted since the last report */
    struct cshim_nccl_job *next;
};

/* The process: written by start only. */
struct cshim_nccl_process {
    const struct cshim_nccl_real *real;
    pid_t pid;
    bool beside_mpi;      /* the MPI engine is in the process, and reports too */
    int version;          /* of NCCL */
    uint64_t fingerprint; /* of this library: what ranks must agree in */
};
extern struct cshim_nccl_process cshim_nccl;

/* Device memory for the messages of calls under way, used by one round after the other. It is
 * never given back to the driver, which would wait for all that runs on the device: the next
 * communicator takes it over. */
struct cshim_workspace {
    int device;
    CUdeviceptr memory; /* CSHIM_WORKSPACE_BYTES, then the elements of sampled calls */
    CUevent idle;       /* recorded behind the last round */
    bool used;          /* idle has been recorded */
    uint32_t *fault;    /* on the host; the kernels see it at fault_device */
    CUdeviceptr fault_device;
    struct cshim_samples *samples; /* sample.c; NULL until it is rank 0's */
    struct cshim_workspace *next;
};
/* Beyond the planner's limit: what hierarchical leaves over, of up to CSHIM_LEVELS_RANKS ranks. */
#define CSHIM_WORKSPACE_BYTES (CSHIM_NCCL_SCRATCH_LIMIT + ((uint64_t)8 << 20))
#define CSHIM_LEVELS_RANKS 1024
/* Of a communicator's calls in one group so many are sampled at most. */
#define CSHIM_SAMPLES_OF_GROUP 16u

/* What rounding took from the elements of a buffer; zeros at first. Addresses of float32s on the
 * device. */
struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    uint64_t bytes;      /* of memory, against the policy's limit */
    CUdeviceptr sent;    /* by place in the buffer: from what this rank encoded ... */
    CUdeviceptr reduced; /* ... and from the sums it encoded as their owner, chunk behind chunk */
    struct cshim_residual *next;
};

/* What is known of a communicator. */
struct cshim_nccl_comm {
    ncclComm_t comm;
    unsigned references;            /* the map's, and one for each thread that works with it */
    struct cshim_nccl_job *job;     /* NULL: its ranks have not agreed */
    struct cshim_nccl_job *counted; /* rank 0: where its calls are; NULL: nowhere */
    enum cshim_reason reason;       /* CSHIM_REASON_COMPRESS, or why it never compresses */
    int rank;
    int ranks;
    struct cshim_member *member; /* of the rendezvous where its ranks agreed, or NULL */
    pthread_mutex_t asking;      /* NCCL is asked about it; an abort waits for that */
    bool aborted;                /* atomic; its handle is no more */
    ncclResult_t failed;         /* in its preparation */

    /* What compressed calls need; made at the first one. */
    bool prepared;
    struct cshim_cuda cuda;
    CUdevice device;
    CUcontext context; /* the device's primary one */
    uint32_t processors;
    CUstream stream; /* for the preparation and the end */
    struct cshim_workspace *workspace;
    uint32_t nodes;
    uint32_t node; /* this rank's */
    uint32_t local_rank;
    uint32_t ranks_per_node; /* 0 where nodes hold different numbers of ranks */
    ncclComm_t inside;       /* hierarchical: the ranks of this node, ... */
    ncclComm_t across;       /* ... and those of this local rank on all nodes */
    uint32_t sequence;       /* compressed calls so far */
    uint32_t *calls_by_rule; /* the same per rule, but for captured ones: to choose samples by */
    uint32_t sampled;        /* calls of the group under way */
    struct cshim_samples *samples; /* the workspace's at rank 0; NULL: nothing is compared */
    struct cshim_timing *timing;
    CUmemoryPool pool; /* of the residuals */
    struct cshim_residual *residuals;
    struct cshim_nccl_comm *next;
};

/* What is compared of a sampled call. */
struct cshim_nccl_sample {
    uint32_t length;    /* elements of each rank; 0: the call is not sampled */
    uint32_t ranks;     /* whose elements are compared: those of all, or rank 0's */
    bool is_scaled;     /* by a factor of each rank */
    uint64_t block;     /* bytes from rank to rank */
    uint64_t first;     /* of the elements, in the buffers */
    CUdeviceptr memory; /* where they are gathered */
    struct slot *slot;  /* sample.c: where rank 0 compares them; or NULL */
};

/* A call as the program made it, and how it is reissued. */
struct cshim_nccl_call {
    ncclComm_t handle;
    struct cshim_nccl_comm *comm; /* what is known of it; referenced */
    enum cshim_collective collective;
    const void *send;
    void *receive;
    size_t count; /* as given */
    ncclDataType_t datatype;
    ncclRedOp_t op;
    cudaStream_t stream;
    double factor; /* ncclRedOpCreatePreMulSum's, or 1 */
    const void *factor_at;
    cuuint64_t capture_id; /* of the graph it is captured into, or 0 */
    CUgraph graph;
    struct cshim_workspace *workspace; /* the communicator's, or the graph's */
    struct cshim_residual *residual;   /* or NULL */
    struct cshim_plan plan;
    uint32_t sequence;      /* of the compressed calls of the communicator, from 1 */
    uint64_t segments_done; /* that are under way */
    bool in_round;          /* one more is in the round that is being put together */
    struct cshim_lap *lap;  /* its timing, or NULL; ... */
    uint32_t part;          /* ... and which of its calls it is */
    struct cshim_nccl_sample sample;
};

/* jobs.c: the job of a policy's text; NULL, and an error logged, if it does not parse. */
struct cshim_nccl_job *cshim_nccl_job_find(const struct cshim_offer *offer);
/* This process's own policy; ends the process if it is wrong. The caller frees the text. */
struct cshim_offer cshim_nccl_job_load(char source[CSHIM_PATH_MAX]);
/* The job in which the calls of a communicator are counted whose ranks have not agreed; NULL if
 * there is no policy for it. */
struct cshim_nccl_job *cshim_nccl_job_native(void);
/* Writes the reports that are due, and the trace. */
void cshim_nccl_job_report(void);
void cshim_nccl_job_trace(void);
/* This process's number in the job, as its launcher has it; 0 where there is none. */
int cshim_nccl_job_rank(void);
/* The name of this process's file where the environment or the policy wants one, before {rank} and
 * {jobid} are replaced. Returns false if it is too long. */
bool cshim_nccl_choose_name(const char *wanted, int rank, char name[CSHIM_PATH_MAX]);
/* A communicator of the job has so many ranks and nodes. */
void cshim_nccl_job_grow(struct cshim_nccl_job *job, bool has_rank_0, int ranks, uint32_t nodes);

/* communicator.c: what is known of comm, with a reference for the caller; NULL if nothing is. */
struct cshim_nccl_comm *cshim_nccl_comm_find(ncclComm_t comm);
void cshim_nccl_comm_release(struct cshim_nccl_comm *state);
/* What is to be known of a communicator that has just been made, or is being made without anybody
 * waiting; NULL, and why, if that cannot be. The caller adds it or releases it. */
struct cshim_newcomer;
struct cshim_nccl_comm *cshim_nccl_comm_make(const struct cshim_newcomer *newcomer, char *why,
                                             size_t size);
/* Begins to know it, now that its ranks have agreed on a job (NULL: have not). nodes: that hold
 * them; 0 if that is not known yet. Takes the reference over. */
void cshim_nccl_comm_add(struct cshim_nccl_comm *state, struct cshim_nccl_job *job, uint32_t nodes);
/* Its handle is about to be aborted: from now on NCCL is not asked about it. */
void cshim_nccl_comm_abort(struct cshim_nccl_comm *state);
static inline bool cshim_nccl_is_aborted(const struct cshim_nccl_comm *state)
{
    return __atomic_load_n(&state->aborted, __ATOMIC_ACQUIRE);
}
/* Takes it out of what is known, before its handle can become another's; the caller ends it. NULL
 * if it is not known. End: what it holds goes with the last reference. */
struct cshim_nccl_comm *cshim_nccl_comm_take(ncclComm_t comm);
void cshim_nccl_comm_end(struct cshim_nccl_comm *state);
/* The machine this process is on. NCCL_HOSTID, where set, tells machines apart, as it does for
 * NCCL; else the kernel's id of this boot, so that containers of one machine are one. */
uint64_t cshim_nccl_host(void);
/* prepare.c: has what the preparation needs ready, so that it cannot fail for this rank alone.
 * Returns false, and why, if that is not to be had. */
bool cshim_nccl_comm_reserve(struct cshim_nccl_comm *state, char *why, size_t size);
/* Makes what compressed calls of these communicators need. Collective, with the same outcome on
 * all ranks: it may leave a reason. */
ncclResult_t cshim_nccl_comm_prepare(struct cshim_nccl_comm **comms, size_t count);
void cshim_nccl_comm_unprepare(struct cshim_nccl_comm *state);

/* Makes the communicator's context current, and what is allocated, freed and waited for legal
 * beside captures of other threads; leave puts both back. */
struct cshim_scope {
    CUresult result; /* of making it current: at the end of a process CUDA may be gone */
    bool relaxed;
    CUstreamCaptureMode mode;
};
struct cshim_scope cshim_nccl_enter(const struct cshim_nccl_comm *state);
void cshim_nccl_leave(const struct cshim_nccl_comm *state, struct cshim_scope *scope);

/* workspace.c: takes one that is free on the communicator's device, whose context is current, or
 * makes one. Returns NULL, and why, if there is no memory. Giving back makes no CUDA call. */
struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *state, char *why,
                                             size_t size);
void cshim_workspace_give(struct cshim_workspace *workspace);
/* Has the call's stream wait until its workspace is free, when its last round is done on whatever
 * stream that was. */
CUresult cshim_workspace_await(const struct cshim_nccl_call *call);

/* capture.c: the workspace of a captured call: one for each communicator and graph, given back with
 * the graph. NULL, and the error logged, if there is none to be had. */
struct cshim_workspace *cshim_capture_workspace(const struct cshim_nccl_call *call);
/* No later capture is of this communicator. */
void cshim_capture_forget(const struct cshim_nccl_comm *comm);

/* feedback.c: the residual of the call's buffer, made if there is none; NULL without memory. Free:
 * with the communicator, whose context is current. */
struct cshim_residual *cshim_feedback_find(const struct cshim_nccl_call *call);
void cshim_feedback_free(struct cshim_nccl_comm *comm);

/* timing.c: makes what the timing of a communicator's calls needs, whose context is current;
 * without memory they are not timed. Collect takes the times that are known by now into the ledger
 * and the trace, on any thread. The rest of it is in round.h. */
void cshim_timing_make(struct cshim_nccl_comm *comm);
void cshim_timing_collect(struct cshim_nccl_comm *comm);
void cshim_timing_free(struct cshim_nccl_comm *comm);

/* sample.c: the sampled error of calls. Begin comes behind the plans of the calls and before their
 * first round, with the same outcome on all ranks as far as NCCL has one; end behind the last
 * round, or with is_good false after a failure, when nothing is compared. Bytes: that all ranks
 * together send for it. Collect takes the errors that are known by now into the ledger, on any
 * thread. Make is for a communicator whose context is current; leave for one that ends: its last
 * samples may be under way. */
ncclResult_t cshim_sampling_begin(struct cshim_nccl_call *calls, size_t count);
void cshim_sampling_end(struct cshim_nccl_call *calls, size_t count, bool is_good);
uint64_t cshim_sampling_bytes_wire(const struct cshim_nccl_call *call);
void cshim_sampling_collect(const struct cshim_nccl_comm *comm);
void cshim_sampling_make(struct cshim_nccl_comm *comm);
void cshim_sampling_leave(struct cshim_nccl_comm *comm);

/* trace.c: COMPSHIM_TRACE. Setup makes a job's trace if one is wanted. Align takes the time at
 * which another process began (nanoseconds of the wall clock; 0: it has no trace) and returns the
 * earliest that this one knows of, from which all count. A lap's calls are added to their jobs'
 * traces; it began at a time of the host's clock. Write writes the file of this process if there is
 * something new. All are thread-safe. */
void cshim_nccl_trace_setup(struct cshim_nccl_job *job);
uint64_t cshim_nccl_trace_align(uint64_t began);
void cshim_nccl_trace_lap(const struct cshim_lap *lap, double begin);
void cshim_nccl_trace_write(const struct cshim_nccl_job *jobs);

/* premul.c: what ncclRedOpCreatePreMulSum made. Returns false for other operations. */
struct cshim_premul {
    double factor;
    const void *factor_at;
    ncclDataType_t datatype; /* NCCL refuses calls of another */
};
bool cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul);
ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm);
void cshim_premul_forget(ncclComm_t comm);

/* group.c: NCCL's groups, and calls that wait for their end. */
ncclResult_t cshim_group_start(void);
ncclResult_t cshim_group_end(void);
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info);
bool cshim_group_open(void);
/* Adds a call to the group, or runs it where there is none. Takes the call's reference over. */
ncclResult_t cshim_group_add(const struct cshim_nccl_call *call);
/* Has the group's end destroy an operation. Returns false where there is no group. */
bool cshim_group_end_op(ncclRedOp_t op, ncclComm_t comm);
/* Adds a communicator that is being made: it is asked for at the group's end. Without member and
 * job it stays native. */
struct cshim_newcomer {
    ncclComm_t *comm;
    bool nonblocking; /* not to be asked for anything, not even its rank: */
    int ranks;
    int rank;
    struct cshim_member *member; /* of a rendezvous, or NULL: ... */
    struct cshim_nccl_job *job;  /* ... then its ranks have agreed on this */
    uint32_t nodes;
    struct cshim_nccl_comm *state; /* made when the handle is there */
};
ncclResult_t cshim_group_expect(const struct cshim_newcomer *newcomer);

/* call.c: the collectives that the front exports. */
ncclResult_t cshim_nccl_all_reduce(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream);
ncclResult_t cshim_nccl_reduce_scatter(const void *send, void *receive, size_t count,
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream);
ncclResult_t cshim_nccl_all_gather(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Counts a call that is made natively. */
void cshim_nccl_count_pass(const struct cshim_nccl_comm *comm, enum cshim_reason reason);
/* Makes NCCL's own call of it. */
ncclResult_t cshim_nccl_natively(const struct cshim_nccl_call *call);
/* The facts that policy and plan look at, and the elements that the plan is of. */
struct cshim_call cshim_nccl_facts(const struct cshim_nccl_call *call);
uint64_t cshim_nccl_elements(const struct cshim_nccl_call *call);

/* round.c: runs compressed calls, in rounds that fit the workspaces. */
ncclResult_t cshim_rounds_run(struct cshim_nccl_call *calls, size_t count);

/* prepare.c: the driver's errors as NCCL's, logged. */
ncclResult_t cshim_nccl_check(const struct cshim_nccl_comm *comm, CUresult result,
                              const char *what);

#endif
