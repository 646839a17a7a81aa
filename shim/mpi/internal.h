/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the Open MPI engine. Functions that the front exports (MPI_Allreduce) are called through
 * job.real only. */
#ifndef CSHIM_MPI_INTERNAL_H
#define CSHIM_MPI_INTERNAL_H

#include <mpi.h>
#include <string.h>

#include "shim/engine.h"
#include "shim/header.h"
#include "shim/layout.h"
#include "shim/ledger.h"
#include "shim/log.h"
#include "shim/watch.h"

/* The type of a compressed call's elements; verify.c. */
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
    double started;
    int keyval; /* of the communicator's state */
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

/* What is known of a communicator, freed with it. */
struct cshim_comm {
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why this communicator never compresses */
    int rank;
    int ranks;
    struct cshim_layout layout;

    /* What a compressed call needs; made at the first one. */
    bool prepared;
    MPI_Comm comm; /* private: the same ranks, errors returned */
    MPI_Comm node; /* these two for hierarchical: the ranks of this node, ... */
    MPI_Comm
        across; /* ... and those of this local rank on all nodes; null on ranks without share */
    int *
        share_lengths; /* of each local rank, and where they begin: for the library's collectives */
    int *share_begins;
    uint32_t sequence;       /* compressed calls so far */
    uint32_t *calls_by_rule; /* compressed calls per rule, to choose samples by */
    struct cshim_watch watch;
    struct cshim_residual *residuals;
    uint8_t *scratch;      /* CSHIM_SCRATCH_LIMIT bytes of address space */
    MPI_Request *requests; /* CSHIM_SEGMENTS_IN_FLIGHT * 4 * ranks */
    MPI_Status *statuses;  /* of one kind of a segment's requests, by rank */
    const void **parts;    /* of a chunk, from each rank */
};

/* One compressed call under way. */
struct cshim_exchange {
    struct cshim_comm *comm;
    const struct cshim_plan *plan;
    const uint8_t *input;
    uint8_t *output;
    size_t element_bytes;
    uint32_t sequence;
    MPI_Comm peers; /* who exchange encoded messages; null on a rank that only helps its node */
    int rank;       /* among them */
    int ranks;
    bool has_options;                /* of the encoding: these two */
    struct cshim_residual *residual; /* or NULL */
    uint64_t keys[CSHIM_STEP_COUNT]; /* of random numbers */
    float error;                     /* the largest of an encoding that this rank knows of */
    struct cshim_row figures;        /* seconds of the phases */
};

/* The elements of the caller's buffers that a segment is of. */
struct cshim_range {
    uint64_t begin;
    uint64_t length;
};

/* Seconds of a monotonic clock. */
double cshim_seconds(void);

/* announce.c: this rank has the shim. Returns false if the launcher keeps no names; then nothing is
 * known of any rank. */
bool cshim_announce(void);
/* Whether a rank has announced itself; await waits for it until the deadline (cshim_seconds). */
bool cshim_announced(int rank);
bool cshim_await_announcement(int rank, double deadline);

/* agree.c: all ranks say that they have the shim, and get rank 0's policy. Fills cshim_job. Returns
 * true if the job compresses. Ends the job if rank 0's policy is wrong. Collective. */
bool cshim_agree(void);
/* Frees what the agreement kept; for jobs that have agreed. */
void cshim_agree_finalize(void);

/* communicator.c: finds what is known of a communicator, without a word to the other ranks. Ends
 * the job where there is no memory. Returns an MPI error. */
int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state);
/* Makes what compressed calls need, once; collective then, with the same outcome on all ranks: it
 * may leave a reason against compressing. Returns an MPI error. */
int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state);
/* Registers the attribute that holds the state. Returns an MPI error. */
int cshim_comm_setup(void);
/* Frees the memory of every state left. */
void cshim_comm_teardown(void);

/* call.c: runs the plan, with all that watches and counts it. Returns an MPI error. */
int cshim_call_run(struct cshim_exchange *exchange);

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

/* exchange.c: runs the plan's allgather, two_shot or hierarchical. Returns an MPI error. */
int cshim_exchange_run(struct cshim_exchange *exchange);
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

/* sample.c: the sampled error of one call. `begin` keeps some of the input before the call, `end`
 * compares the result with its sum in float64. Both are collective, and cheap where the call is not
 * sampled. They return an MPI error. */
struct cshim_sample {
    bool taken;
    uint64_t first;  /* element */
    uint32_t length; /* elements */
    double values[128];
};
void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call_of_rule);
int cshim_sample_end(struct cshim_sample *sample, struct cshim_exchange *exchange);

#endif
