/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: which collective does which step by which algorithm, who adds up which elements,
 * who receives them, and what is kept in memory meanwhile.
 *
 * One table (schedule.c) answers these questions for the planner, for every engine, for the counts
 * of bytes and for the phases of traces. Pure: no MPI, no CUDA, no globals that change.
 *
 * A collective moves two kinds of message. A *part* is what one rank contributes: encoded elements
 * of its own buffer. A *sum* is what an owner has added up, encoded once more; in a broadcast the
 * part that the root gave to the owner, which passes it on as it came. In a grid (grid.h) the owner
 * in a row adds up the row's parts only. Its sum is a part to the owner in the column, whose sums
 * go back through the column and then, as they came, along the rows.
 */
#ifndef CSHIM_SCHEDULE_H
#define CSHIM_SCHEDULE_H

#include "policy/policy.h"

/* Properties of a collective that do not depend on the algorithm. */
struct cshim_shape {
    bool has_blocks;      /* the call's larger buffer holds a block for each rank */
    unsigned ring_passes; /* a ring sends this buffer so many times, less one rank's part each */
};
extern const struct cshim_shape cshim_shapes[CSHIM_COLLECTIVE_COUNT];

/* The steps of a segment, in their order. A schedule has some of them. */
enum cshim_step {
    CSHIM_STEP_REDUCE_INSIDE, /* the ranks of a node add; each gets a share */
    CSHIM_STEP_ENCODE,        /* parts are encoded; in cast, the largest magnitude is found */
    CSHIM_STEP_EXCHANGE,      /* parts go to their receivers; in cast, the magnitude is agreed */
    CSHIM_STEP_NARROW,        /* cast only: elements are narrowed by the agreed scale */
    CSHIM_STEP_SUM,           /* the owner decodes and adds the parts */
    CSHIM_STEP_SUM_COLUMN,    /* a grid's rows have been added up, and their sums are in turn */
    CSHIM_STEP_COLLECT,       /* sums go to their receivers; in cast, the library's all-reduce */
    CSHIM_STEP_FORWARD,       /* sums that came through a column of a grid go along the row */
    CSHIM_STEP_DECODE,        /* sums, or parts that nobody adds up, are decoded */
    CSHIM_STEP_GATHER_INSIDE, /* the ranks of a node gather the shares */
    CSHIM_STEPS
};

/* Division of a segment's elements among the peers. */
enum cshim_division {
    CSHIM_WHOLE,  /* not at all: each receiver of the result adds everything itself */
    CSHIM_CHUNKS, /* evenly: each peer owns one chunk of each segment */
    CSHIM_BLOCKS  /* by the call: each peer has its block of the buffer, a chunk in each segment */
};

/* Receivers of a message, besides its sender. */
enum cshim_receiver {
    CSHIM_TO_NOBODY,
    CSHIM_TO_ALL,    /* every other peer */
    CSHIM_TO_ROOT,   /* the root of a reduce */
    CSHIM_TO_OWNER,  /* the peer that adds these elements up, passes them on, or keeps them */
    CSHIM_TO_LIBRARY /* an all-reduce of the library's own */
};

struct cshim_compiler;

/* One row: a collective by an algorithm. */
struct cshim_schedule {
    uint16_t steps; /* bit 1 << step for each step of enum cshim_step */
    enum cshim_division division;
    enum cshim_receiver parts_to;
    enum cshim_receiver sums_to;
    /* Kept for each segment in flight: encoded chunks, as many for each peer and some more; and
     * whether one chunk per peer in the caller's type. */
    uint8_t pieces_per_peer;
    uint8_t pieces_more;
    bool staged;
    /* Roundings on the way of a value; 0: one at every rank. */
    uint8_t quantizations;
    bool root_gives; /* parts are the root's alone; else every peer gives some */
    /* Compiles the operations of a segment (shim/core/algorithms); NULL: the library's own
     * all-reduce makes the call. */
    void (*compile)(struct cshim_compiler *compiler);
};

/* The schedule of a collective by an algorithm; NULL where there is no such thing. Static. */
const struct cshim_schedule *cshim_schedule_of(enum cshim_collective collective,
                                               enum cshim_algorithm algorithm);

/* The schedule of a grid in which each node is one peer, whose ranks share its work. Static. */
const struct cshim_schedule *cshim_schedule_grid_of_nodes(void);

/* Returns true if a schedule has a step. */
static inline bool cshim_schedule_has(const struct cshim_schedule *schedule, enum cshim_step step)
{
    return (schedule->steps >> step & 1) != 0;
}

/* Returns true if a step needs one of the library's own collectives, which the caller has to wait
 * for. */
bool cshim_schedule_needs_library(const struct cshim_schedule *schedule);

/* Returns true if a peer receives the sums of elements that another peer has added up. `root` is
 * the call's. */
static inline bool cshim_schedule_gets_sums(const struct cshim_schedule *schedule, uint32_t peer,
                                            uint32_t root)
{
    return schedule->sums_to == CSHIM_TO_ALL ||
           (schedule->sums_to == CSHIM_TO_ROOT && peer == root);
}

/* Returns true if elements of all ranks are added up; otherwise each comes from one rank. */
bool cshim_schedule_adds(const struct cshim_schedule *schedule);

/* Returns true if all ranks end with the same result, and have seen a message of every peer. */
bool cshim_schedule_is_shared(const struct cshim_schedule *schedule);

/* Bits of an fp16 that cast leaves free: the sum of all ranks fits, with one bit more for the
 * rounding at each hop of the library's all-reduce. */
static inline uint32_t cshim_cast_headroom(uint32_t ranks)
{
    uint32_t bits = 1;
    while (bits < 31 && 1u << (bits - 1) < ranks)
        bits++;
    return bits;
}

/* Phases that reports and traces attribute the time of a step to. */
enum cshim_phase {
    CSHIM_PHASE_ENCODE,
    CSHIM_PHASE_EXCHANGE,
    CSHIM_PHASE_DECODE, /* and adding up */
    CSHIM_PHASES
};
enum cshim_phase cshim_step_phase(enum cshim_step step);

#endif
