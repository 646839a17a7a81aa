/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline: what the compressed calls of a group did on one stream of the GPU, and when. Events
 * divide it into intervals, one for each step of each batch. The calls whose segments had the step
 * share its interval by their bytes. Where kernels run on another stream, theirs are the intervals
 * in which this one waits for them.
 *
 *     | encode | exchange | sum | collect | decode | encode | ...
 *     0        1          2     3         4        5        6      marks
 *     |<----------------- a batch ---------------->|<--- the next one
 *
 * Pure: no NCCL, no CUDA. A timeline has no lock: one thread at a time uses it. */
#ifndef CSHIM_NCCL_TIMELINE_H
#define CSHIM_NCCL_TIMELINE_H

#include "shim/report/ledger.h"

struct CUevent_st;
struct CUstream_st;
struct cshim_nccl_comm;
struct cshim_job;
struct cshim_sample_slot;

/* A call. */
struct cshim_timed_call {
    struct cshim_plan plan;
    uint32_t sequence;              /* of the compressed calls of its communicator */
    uint64_t batch_bytes;           /* of its segments in the batch under way */
    struct cshim_job *job;          /* has the ledger and the trace */
    bool is_counted;                /* in the ledger */
    struct cshim_sample_slot *slot; /* where its sample is compared, or NULL */
    struct cshim_row figures;       /* seconds and their phases: cshim_timeline_add_up */
    double begin;                   /* of its first interval, since the timeline began, ... */
    double end;                     /* ... and the end of its last one */
};

/* The end of an interval; the first mark is the beginning of all. */
struct cshim_mark {
    struct CUevent_st *event; /* recorded at this place of the stream */
    double time;              /* seconds since the first mark, once they are known */
    size_t shares;            /* that are in intervals up to here */
};

/* A call's share in an interval. */
struct cshim_share {
    uint32_t call;
    enum cshim_step step;
    uint64_t bytes;
    double begin; /* these two once the times are known */
    double seconds;
};

struct cshim_timeline {
    struct cshim_timeline *next;
    struct cshim_mark *marks;
    struct cshim_share *shares; /* by interval; inside one, in the order of the calls' kernels */
    struct cshim_timed_call *calls;
    size_t mark_count;
    size_t share_count;
    size_t call_count;
    double enqueued;              /* when the host began: the GPU cannot have begun before */
    struct cshim_nccl_comm *comm; /* owns the events */
    struct CUstream_st *stream;
    bool overlaps;  /* with kernels of a call on another stream */
    bool is_broken; /* there was no event for a mark: no times are known */
};

/* An empty timeline with room for so many of each. Returns NULL without memory. Freed by free. */
struct cshim_timeline *cshim_timeline_make(size_t marks, size_t shares, size_t calls);

/* Since the last mark the calls of the batch under way that have a step did that step. False if
 * none has it. */
bool cshim_timeline_share(struct cshim_timeline *timeline, enum cshim_step step);

/* Adds a mark behind the shares that were added since the last one. */
void cshim_timeline_mark(struct cshim_timeline *timeline, struct CUevent_st *event);

/* Divides the intervals, once the times of all marks are known, and adds up what is each call's:
 * figures, begin and end. */
void cshim_timeline_add_up(struct cshim_timeline *timeline);

#endif
