/* SPDX-License-Identifier: Apache-2.0 */
/* Inside an MPI engine. Functions that the front exports (MPI_Allreduce) are called through
 * job.real only.
 *
 * The program may call from several threads (MPI_THREAD_MULTIPLE); the engine has none of its own.
 * What a communicator has needs no lock in a blocking call: MPI forbids two collective calls on it
 * at once. Locks are those of
 *   nonblocking.c   the calls under way: held by whoever carries them on;
 *   requests.c      the list of persistent requests;
 *   communicator.c  the list of communicators;
 *   ledger.h        the rows.
 * Under the first, the ledger's may be taken and MPI be called, on private communicators, which
 * return errors; under the others, neither. No function of the program's runs under a lock: error
 * handlers are called when it is free, and may themselves call whatever MPI lets them. */
#ifndef CSHIM_MPI_INTERNAL_H
#define CSHIM_MPI_INTERNAL_H

#include <mpi.h>
#include <string.h>

#include "shim/mpi/engine.h"
#include "shim/core/clock.h"
#include "shim/core/header.h"
#include "shim/core/layout.h"
#include "shim/report/ledger.h"
#include "shim/core/log.h"
#include "shim/report/observed.h"
#include "shim/core/sample.h"
#include "shim/report/trace.h"
#include "shim/core/tolerance.h"

/* The type of a compressed call's elements; describe.c. */
MPI_Datatype cshim_mpi_datatype(enum cshim_dtype dtype);

/* The 16-bit float of this MPI; many builds have none (MPI_DATATYPE_NULL). */
static inline MPI_Datatype cshim_mpi_half(void)
{
#ifdef MPI_REAL2
    return MPI_REAL2;
#else
    return MPI_DATATYPE_NULL;
#endif
}

/* The job, from start to finalize; written only there, by one thread. */
struct cshim_job {
    const struct cshim_mpi_real *real;
    struct cshim_policy *policy;
    char policy_sha256[65];
    struct cshim_ledger ledger;
    MPI_Comm world;  /* private; all ranks have agreed on it */
    MPI_Group group; /* of world */
    int rank;
    int ranks;
    struct cshim_layout layout;
    /* Bytes below which a call on the world is too small. */
    uint64_t compress_from[CSHIM_COLLECTIVE_COUNT][CSHIM_DTYPE_COUNT];
    double started;
    double stopped;                  /* the program came to MPI_Finalize */
    struct cshim_observed *observed; /* COMPSHIM=observe: calls are written down; else NULL */
    struct cshim_trace *trace;       /* COMPSHIM_TRACE: events are kept; else NULL */
    bool is_watched;                 /* one of these two */
    struct cshim_trace_clock clock;
    char trace_path[CSHIM_PATH_MAX];
    int keyval;       /* of the communicator's state */
    bool nonblocking; /* the library lets us carry on exchanges that nobody waits for */
    uint32_t wanted;  /* communicators that a blocking call is to prepare; atomic */
    bool devices;     /* some rank may have buffers on a GPU */
};
extern struct cshim_job cshim_job;

/* What rounding took from the elements of a buffer; zeros at first. */
struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    uint64_t bytes; /* of memory, against the policy's limit */
    float *sent;    /* by place in the buffer: from what this rank encoded ... */
    float *reduced; /* ... and from the sums it encoded as their owner */
    struct cshim_residual *next;
};

/* The kinds of message a segment of an exchange has; each has one request per peer. */
enum cshim_transfer {
    CSHIM_RECEIVE_PARTS,
    CSHIM_RECEIVE_REDUCED,
    CSHIM_SEND_PARTS,
    CSHIM_SEND_REDUCED,
    CSHIM_MESSAGE_KINDS
};

/* What is known of a communicator, freed when it and its persistent requests are. */
struct cshim_comm {
    uint32_t references;      /* the communicator's, and one of who else holds it; atomic */
    MPI_Comm program;         /* the program's, for its error handler; once freed, MPI_COMM_SELF */
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why this communicator never compresses */
    int rank;
    int ranks;
    struct cshim_layout layout;

    /* What a compressed call needs; made at the first one, but not by a nonblocking call, which
     * can only want it. */
    bool prepared;
    bool wanted;
    MPI_Comm comm; /* private: the same ranks, errors returned */
    MPI_Comm node; /* these two for hierarchical: the ranks of this node, ... */
    MPI_Comm
        across; /* ... and those of this local rank on all nodes; null on ranks without share */
    int *
        share_lengths; /* of each local rank, and where they begin: for the library's collectives */
    int *share_begins;
    struct pending *active;  /* nonblocking.c: the call that has the scratch, or NULL; ... */
    uint32_t pending;        /* ... and how many are under way; atomic */
    uint32_t sequence;       /* compressed calls so far */
    uint32_t *calls_by_rule; /* compressed calls per rule, to choose samples by */
    struct cshim_watch watch;
    struct cshim_residual *residuals;
    uint8_t *scratch;       /* CSHIM_SCRATCH_LIMIT bytes of address space */
    MPI_Request *requests;  /* CSHIM_SEGMENTS_IN_FLIGHT * CSHIM_MESSAGE_KINDS * ranks */
    MPI_Status *statuses;   /* of one kind of a segment's requests, by rank ... */
    int *indices;           /* ... or of those of them that have ended */
    uint64_t *block_begins; /* of a reduce_scatter's results, by rank, and where the last ends */
    const void **parts;     /* of a chunk, from each rank */
};

/* The elements of the caller's buffers that a segment is of. */
struct cshim_range {
    uint64_t begin;
    uint64_t length;
};

/* What a turn of an exchange does, one after the other. */
enum cshim_stage { CSHIM_STAGE_ENTER, CSHIM_STAGE_REDUCE, CSHIM_STAGE_LEAVE, CSHIM_STAGE_COUNT };

/* One compressed call under way. */
struct cshim_exchange {
    struct cshim_comm *comm;
    const struct cshim_plan *plan;
    const uint8_t *input;
    uint8_t *output;
    struct cshim_range result; /* the elements of the whole whose sums come to output */
    size_t element_bytes;
    uint32_t sequence;
    MPI_Comm peers; /* who exchange encoded messages; null on a rank that only helps its node */
    int rank;       /* among them */
    int ranks;
    bool has_options;                /* of the encoding: these two */
    struct cshim_residual *residual; /* or NULL */
    uint64_t keys[CSHIM_MESSAGES]; /* of random numbers */
    float error;                     /* the largest of an encoding that this rank knows of */
    double began;                    /* nonblocking, while there is a trace */
    struct cshim_row figures;        /* seconds of the phases */
    bool nonblocking;                /* advance returns where it would have to wait */
    uint64_t turn;                   /* where advance goes on */
    enum cshim_stage stage;
};

/* A reduction as the program calls it. */
struct cshim_arguments {
    enum cshim_collective collective;
    bool nonblocking;
    bool large; /* by the function whose name ends in _c */
    const void *sendbuf;
    void *recvbuf;
    uint64_t count;         /* elements; of a reduce_scatter_block each result's */
    const void *recvcounts; /* of a reduce_scatter, else NULL: of int, or of cshim_count if large */
    MPI_Datatype datatype;
    MPI_Op op;
    int root; /* of a reduce */
    MPI_Comm comm;
};

/* A rank's result of a call that has recvcounts. */
static inline int64_t cshim_recvcount(const struct cshim_arguments *arguments, int rank)
{
    return arguments->large ? ((const cshim_count *)arguments->recvcounts)[rank]
                            : ((const int *)arguments->recvcounts)[rank];
}

/* announce.c: this rank has the shim. Returns false if the launcher keeps no names; then nothing is
 * known of any rank. */
bool cshim_announce(void);
/* Whether a rank has announced itself; await waits for it until the deadline (cshim_seconds). */
bool cshim_announced(int rank);
bool cshim_await_announcement(int rank, double deadline);

/* agree.c: all ranks say that they have the shim, and get rank 0's policy and its name of the job.
 * Fills cshim_job. Returns true if the job compresses. Ends the job if rank 0's policy is wrong.
 * Collective. */
bool cshim_agree(void);
/* Frees what the agreement kept; for jobs that have agreed. */
void cshim_agree_finalize(void);

/* communicator.c: finds what is known of a communicator, without a word to the other ranks. Ends
 * the job where there is no memory. Returns an MPI error. */
int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state);
/* Makes what compressed calls need, once; collective then, with the same outcome on all ranks: it
 * may leave a reason against compressing. Returns an MPI error. */
int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state);
/* A persistent request holds the state, which is not freed with the communicator before it is
 * released. */
void cshim_comm_hold(struct cshim_comm *state);
void cshim_comm_release(struct cshim_comm *state);
/* Registers the attribute that holds the state. Returns an MPI error. */
int cshim_comm_setup(void);
/* Frees the memory of every state left. */
void cshim_comm_teardown(void);

/* call.c: runs the plan, with all that watches and counts it. Returns an MPI error. */
int cshim_call_run(struct cshim_exchange *exchange);
/* Parts of it, for calls that nobody waits for: what the rule asks of the encoding, and the ledger.
 */
void cshim_call_set_options(struct cshim_exchange *exchange);
void cshim_call_count(struct cshim_exchange *exchange, double seconds);

/* device.c: setup finds out whether any rank may have buffers on a GPU; check whether any rank's
 * buffers of a call are there, and the call is to be passed on. Both are collective; they return an
 * MPI error. */
int cshim_device_setup(void);
int cshim_device_check(const struct cshim_arguments *arguments, const struct cshim_comm *comm,
                       bool *any);

/* nonblocking.c: exchanges that are carried on whenever the library makes progress. setup finds out
 * whether all ranks can do that, and prepares the world; teardown waits for what is still under
 * way, but not for ever. Both are collective; setup returns false if the library refuses. */
bool cshim_nonblocking_setup(void);
void cshim_nonblocking_teardown(void);
/* Starts a planned call of a prepared communicator, whose end completes a receive of this tag, made
 * by cshim_nonblocking_receive (and started, if it is persistent). Return an MPI error. */
int cshim_nonblocking_tag(void);
int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request);
int cshim_nonblocking_start(const struct cshim_arguments *arguments, const struct cshim_plan *plan,
                            struct cshim_comm *comm, int tag, MPI_Request request);
/* Waits until none of a communicator's calls is under way. */
void cshim_nonblocking_drain(struct cshim_comm *comm);
/* Whether the request is that of a call under way; sets the program's communicator then. */
bool cshim_nonblocking_has(MPI_Request request, MPI_Comm *comm);

/* progress.c: find looks whether the library lets a function of ours make progress with it, in all
 * its calls. add has it call one of two: advance, which returns how much was done, until it is
 * removed; or advance_until_idle, until that returns true, and not again before it is added anew.
 */
bool cshim_progress_find(void);
void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void));
void cshim_progress_remove(int (*advance)(void));
/* Has the library make progress; not for use in these functions. */
void cshim_progress_make(void);
/* For use in these functions, the contracts of MPI_Test and MPI_Testsome. */
int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status);
int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[]);

/* requests.c: the functions that the front calls, each with the contract of its MPI function. */
int cshim_iallreduce(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Request *request);
int cshim_iallreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Request *request);
int cshim_allreduce_init(CSHIM_REDUCTION(int), MPI_Comm comm, MPI_Info info, MPI_Request *request);
int cshim_allreduce_init_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm, MPI_Info info,
                           MPI_Request *request);
int cshim_start(MPI_Request *request);
int cshim_startall(int count, MPI_Request requests[]);
int cshim_request_free(MPI_Request *request);
int cshim_cancel(MPI_Request *request);
/* Frees what the program did not. */
void cshim_requests_teardown(void);

/* feedback.c: the residual of the exchange's buffer, made if there is none; NULL without memory. */
struct cshim_residual *cshim_feedback_find(const struct cshim_exchange *exchange);
void cshim_feedback_free(struct cshim_comm *comm);

/* verify.c: begin sums natively if the rule's `call`th is to be verified (leaves NULL if not,
 * or if a rank has no memory), end compares and frees.
 * check_ranks compares the ranks' results. Begin and check are collective; they return an MPI
 * error. */
int cshim_verify_begin(const struct cshim_exchange *exchange, uint32_t call, void **native);
void cshim_verify_end(struct cshim_exchange *exchange, void *native);
int cshim_check_ranks(struct cshim_exchange *exchange, uint32_t call);

/* reductions.c: the functions that the front calls, each with the contract of its MPI function. */
int cshim_allreduce(CSHIM_REDUCTION(int), MPI_Comm comm);
int cshim_allreduce_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm);
int cshim_reduce_to_root(CSHIM_REDUCTION(int), int root, MPI_Comm comm);
int cshim_reduce_to_root_c(CSHIM_REDUCTION(MPI_Count), int root, MPI_Comm comm);
int cshim_reduce_scatter(CSHIM_SCATTERED(int), MPI_Comm comm);
int cshim_reduce_scatter_c(CSHIM_SCATTERED(MPI_Count), MPI_Comm comm);
int cshim_reduce_scatter_block(CSHIM_REDUCTION(int), MPI_Comm comm);
int cshim_reduce_scatter_block_c(CSHIM_REDUCTION(MPI_Count), MPI_Comm comm);
/* Whether the library itself would refuse a call, or it has nothing in it to describe. */
bool cshim_is_refused(const struct cshim_arguments *arguments);
/* Counts a call that is passed through, at rank 0 of its communicator. */
void cshim_count_pass(enum cshim_reason reason, MPI_Comm comm);
/* A planned call of a prepared communicator, ready for cshim_call_run. */
struct cshim_exchange cshim_exchange_of(const struct cshim_arguments *arguments,
                                        const struct cshim_plan *plan, struct cshim_comm *state);

/* describe.c: the facts of a call whose arguments are valid, all equal on all ranks, and its
 * elements; or the first reason found not to compress it. */
enum cshim_reason cshim_describe_call(const struct cshim_arguments *arguments,
                                      struct cshim_call *call, uint64_t *count);
/* Finds out what calls on the world need no further look; once the ranks have agreed. */
void cshim_describe_setup(void);
/* The facts of any call that is only to be written down. Returns false if it is one between groups,
 * or with processes outside the job. */
bool cshim_describe_observed(const struct cshim_arguments *arguments, struct cshim_call *call);

/* exchange.c: runs the plan's allgather, two_shot or hierarchical. Returns an MPI error. */
int cshim_exchange_run(struct cshim_exchange *exchange);
/* The same in steps: begin sends nothing; advance goes on as far as it can, and says whether all is
 * done. */
void cshim_exchange_begin(struct cshim_exchange *exchange);
int cshim_exchange_advance(struct cshim_exchange *exchange, bool *done);
/* levels.c: hierarchical inside the node, by the library's own collectives. share is what this rank
 * owns of a segment; reduce leaves the node's sum of it in stage, gather collects the job's sums of
 * all shares in the output. They return an MPI error. */
struct cshim_range cshim_levels_share(const struct cshim_exchange *exchange,
                                      const struct cshim_range *segment, int local_rank);
int cshim_levels_reduce(struct cshim_exchange *exchange, const struct cshim_range *segment,
                        uint8_t *stage);
int cshim_levels_gather(struct cshim_exchange *exchange, const struct cshim_range *segment,
                        const uint8_t *stage);
/* cast.c: runs the plan's allreduce: narrow, the library's own all-reduce, widen. setup makes the
 * operations that add 16-bit floats, teardown frees them. All return an MPI error. */
int cshim_cast_run(struct cshim_exchange *exchange);
int cshim_cast_setup(void);
void cshim_cast_teardown(void);

/* trace.c: a phase of a call ends: its seconds are counted, and it is traced. Returns the time. */
double cshim_phase_end(struct cshim_exchange *exchange, enum cshim_trace_kind phase, double began);
/* A compressed call has ended; a call that was passed on, while there is a trace. */
void cshim_trace_call(const struct cshim_exchange *exchange, double began, double seconds);
void cshim_trace_pass(const struct cshim_kind *kind, enum cshim_reason reason, double began);
/* Rank 0's environment says whether and where; the ranks' clocks are compared. Collective. */
void cshim_trace_setup(void);
/* Writes the trace and frees it. Collective. */
void cshim_trace_finish(void);

/* observe.c: a call that is passed on and written down, or traced, or both; begin is collective. */
struct cshim_observation {
    MPI_Comm comm; /* null: neither */
    enum cshim_reason reason;
    double began;
    struct cshim_kind kind;
};
void cshim_observe_begin(struct cshim_observation *observation, const struct cshim_call *call,
                         MPI_Comm comm);
void cshim_observe_end(struct cshim_observation *observation);
/* Rank 0's environment says whether calls are observed. Collective; may end the job. */
void cshim_observe_setup(void);
/* Times the shim's own exchange. Collective. */
void cshim_observe_probe(void);

/* sample.c: the sampled error of one call. `begin` keeps some of the input before the call, `end`
 * compares the result with its sum in float64. Both are collective, and cheap where the call is not
 * sampled. They return an MPI error. */
struct cshim_sample {
    bool taken;
    int taker;       /* the rank whose result is compared */
    uint64_t first;  /* element */
    uint32_t length; /* elements */
    double values[CSHIM_SAMPLE_MAX];
    double sums[CSHIM_SAMPLE_MAX];
};
void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call_of_rule);
int cshim_sample_end(struct cshim_sample *sample, struct cshim_exchange *exchange);
/* The second half of `end`, once the sums are there. */
void cshim_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange);

#endif
