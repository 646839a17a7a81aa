/* SPDX-License-Identifier: Apache-2.0 */
/* A lap: what the compressed calls of one group (or one call alone) took on one stream of the GPU.
 * Its marks divide the time into intervals, one for each step of each round; the calls that did
 * something in a step share its interval.
 *
 * Pure: no NCCL, no CUDA. The structures have no lock; a lap is used by one thread at a time. */
#ifndef CSHIM_NCCL_LAP_H
#define CSHIM_NCCL_LAP_H

#include "shim/report/ledger.h"
#include "shim/report/trace.h"

struct CUevent_st;
struct CUstream_st;
struct cshim_nccl_comm;
struct cshim_nccl_job;

/* The end of an interval. */
struct cshim_lap_mark {
    struct CUevent_st *event; /* recorded at this place of the stream */
    double time;              /* seconds since the lap's first mark, once they are known */
    uint32_t round;           /* of the lap, from 0 */
    enum cshim_step step;     /* what the interval was for; CSHIM_STEPS: for waiting */
};

/* A call's segment in a round. */
struct cshim_lap_turn {
    uint32_t round;
    uint32_t part;  /* index of the call */
    uint64_t bytes; /* of the caller's buffer */
};

/* A call. */
struct cshim_lap_part {
    struct cshim_plan plan;
    uint32_t sequence;          /* of the compressed calls of its communicator */
    uint64_t bytes;             /* of the caller's buffer */
    struct cshim_nccl_job *job; /* whose ledger and trace it is for */
    bool is_counted;            /* in the ledger */
    struct cshim_row figures;   /* seconds and their parts: cshim_lap_add_up */
    double begin;               /* of its first interval, since the lap began; ... */
    double end;                 /* ... and the end of its last one */
};

/* Arrays of the lap's own. The first mark is the lap's beginning. The last one stands for all
 * rounds from its own on: what ends there was not divided further. */
struct cshim_lap {
    struct cshim_lap *next;
    struct cshim_lap_mark *marks;
    struct cshim_lap_turn *turns; /* by round */
    struct cshim_lap_part *parts;
    size_t mark_count;
    size_t turn_count;
    size_t part_count;
    uint32_t rounds;              /* begun so far */
    double enqueued;              /* seconds of the host's clock: it cannot have begun before */
    struct cshim_nccl_comm *comm; /* whose events these are */
    struct CUstream_st *stream;   /* where they are recorded */
    struct CUevent_st *reserve;   /* for the last mark, if there is none left then; or NULL */
    bool is_short;  /* there was no event for a mark: from there on there are none but the last */
    bool is_broken; /* an event was refused: the lap tells nothing */
};

/* An empty lap with room for so much; NULL without memory. Freed by free. */
struct cshim_lap *cshim_lap_make(size_t marks, size_t turns, size_t parts);

/* A call's share in an interval. Those of one interval follow each other in the order of the turns,
 * which is that of their kernels. */
struct cshim_lap_slice {
    const struct cshim_lap_part *part;
    bool has_phase; /* else the call waited, or what it did is not known */
    enum cshim_phase phase;
    double begin; /* seconds since the lap began */
    double seconds;
};
typedef void cshim_lap_visitor(void *context, const struct cshim_lap_slice *slice);

/* Visits the slices of a lap whose times are known. An interval is shared by the bytes of the calls
 * that had the step, or if none had it, of those that had a turn. */
void cshim_lap_visit(const struct cshim_lap *lap, cshim_lap_visitor *visitor, void *context);

/* Adds the slices up: figures, begin and end of each part. */
void cshim_lap_add_up(struct cshim_lap *lap);

#endif
