/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline: the steps of a group's compressed calls on one CUDA stream, with their times. Events
 * (marks) divide it into intervals, one for each step of each batch. An interval is divided among
 * the calls whose segments had the step, in proportion to their bytes. If kernels run on
 * another stream, a kernel's interval is the time that the timeline's stream waits for the kernel.
 *
 *     | encode | exchange | sum | collect | decode | encode | ...
 *     0        1          2     3         4        5        6      marks
 *     |<----------------- a batch ---------------->|<--- the next one
 *
 * Pure: calls neither NCCL nor CUDA. A timeline has no lock: one thread at a time uses it. */
#ifndef CSHIM_NCCL_TIMELINE_H
#define CSHIM_NCCL_TIMELINE_H

#include "shim/core/operation.h"
#include "shim/report/ledger.h"

struct CUevent_st;
struct CUstream_st;
struct cshim_nccl_comm;
struct cshim_job;
struct cshim_sample_slot;

/* Steps of a batch, in their order; a step is executed for all segments of the batch at once. A
 * segment has some of the steps. */
enum cshim_step {
    CSHIM_STEP_REDUCE_INSIDE, /* the ranks of a node add; each gets a share */
    CSHIM_STEP_ENCODE,        /* encodes contributions; in fp16 cast, finds the largest magnitude */
    CSHIM_STEP_EXCHANGE, /* sends contributions; in fp16 cast, all-reduces the largest magnitude */
    CSHIM_STEP_NARROW,   /* cast only: downcasts elements, with fp16 by the common scale */
    CSHIM_STEP_SUM,      /* adds contributions */
    CSHIM_STEP_COLLECT,  /* sends reduced chunks; without operations, NCCL's all-reduce */
    CSHIM_STEP_DECODE,   /* decodes reduced chunks, or contributions if nothing is added; in cast,
                            converts the sums back */
    CSHIM_STEP_GATHER_INSIDE, /* the ranks of a node gather the shares */
    CSHIM_STEPS
};
enum cshim_phase cshim_step_phase(enum cshim_step step);
/* Returns the set of steps that execute the operations: bit 1 << step for each step. */
uint16_t cshim_steps_of(const struct cshim_operations *operations);

/* A call on the timeline. */
struct cshim_timed_call {
    struct cshim_plan plan;
    uint32_t sequence;              /* number among its communicator's compressed calls */
    uint64_t batch_bytes;           /* bytes of its segments in the current batch */
    uint16_t steps;                 /* bit 1 << step for each step of its segments so far */
    struct cshim_job *job;          /* owner of the ledger and the trace */
    bool is_counted;                /* true if the ledger gets the call */
    struct cshim_sample_slot *slot; /* slot in which its sample is compared, or NULL */
    struct cshim_row figures;       /* seconds, in total and of each phase; the sample's errors */
    double begin; /* beginning of its first interval, in seconds since the first mark */
    double end;   /* end of its last interval, in seconds since the first mark */
};

/* End of an interval; the first mark is the beginning of the timeline. */
struct cshim_mark {
    struct CUevent_st *event; /* recorded on the stream */
    double time;   /* seconds since the first mark; the caller of cshim_timeline_add_up sets it */
    size_t shares; /* number of shares in all intervals up to this mark */
};

/* A call's share of an interval. */
struct cshim_share {
    uint32_t call; /* index in `calls` */
    enum cshim_step step;
    uint64_t bytes;
    double begin; /* seconds since the first mark; set by cshim_timeline_add_up */
    double seconds;
};

struct cshim_timeline {
    struct cshim_timeline *next;
    struct cshim_mark *marks;
    struct cshim_share *shares; /* ordered by interval, then by call */
    struct cshim_timed_call *calls;
    size_t mark_count;
    size_t share_count;
    size_t call_count;
    double enqueued; /* host time just before the first mark; the GPU cannot have begun earlier */
    struct cshim_nccl_comm *comm; /* owner of the events */
    struct CUstream_st *stream;
    bool overlaps;  /* true if a call's kernels run on another stream */
    bool is_broken; /* true if an event was missing: the times are not known */
};

/* Returns an empty timeline with room for that many marks, shares and calls; NULL without memory.
 * The caller frees it with free(). */
struct cshim_timeline *cshim_timeline_make(size_t marks, size_t shares, size_t calls);

/* Adds a share of the interval that began at the last mark, for each call of the current batch that
 * has `step`. The next mark ends the interval. Returns false if no call has the step. */
bool cshim_timeline_share(struct cshim_timeline *timeline, enum cshim_step step);

/* Adds a mark, which ends the interval of the shares added since the last one. */
void cshim_timeline_mark(struct cshim_timeline *timeline, struct CUevent_st *event);

/* Divides the intervals among their shares, and sets each call's figures, begin and end. The times
 * of all marks must be set. */
void cshim_timeline_add_up(struct cshim_timeline *timeline);

#endif
