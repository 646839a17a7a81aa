/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: the steps of each collective and algorithm, who reduces which elements, who
 * receives them, and the memory of each segment in flight.
 *
 * The planner, all engines, the counts of bytes and the phases of traces use one table
 * (schedule.c). Pure: no MPI, no CUDA, no mutable globals. Thread-safe.
 *
 * A collective moves two kinds of message. A *part* is a contribution: encoded elements of one
 * rank's buffer. A *sum* is a reduced chunk: elements that an owner has added up, encoded again; in
 * a broadcast the part that the owner has received from the root, which it forwards unchanged. In a
 * grid (grid.h) the owner in a row adds only the row's parts. Its sum is a part for the owner in
 * the column, whose sums are sent back through the column and are then forwarded unchanged along
 * the rows. */
#ifndef CSHIM_SCHEDULE_H
#define CSHIM_SCHEDULE_H

#include "policy/policy.h"

/* Properties of a collective that do not depend on the algorithm. */
struct cshim_shape {
    bool has_blocks;      /* the call's larger buffer holds a block for each rank */
    unsigned ring_passes; /* how often a ring sends this buffer, each time without a rank's part */
};
extern const struct cshim_shape cshim_shapes[CSHIM_COLLECTIVE_COUNT];

/* The steps of a segment, in their order. A schedule has some of them. */
enum cshim_step {
    CSHIM_STEP_REDUCE_INSIDE, /* the ranks of a node add; each gets a share */
    CSHIM_STEP_ENCODE,     /* parts are encoded; in cast, each rank finds its largest magnitude */
    CSHIM_STEP_EXCHANGE,   /* parts are sent; in cast, the largest magnitude is all-reduced */
    CSHIM_STEP_NARROW,     /* cast only: elements are downcast with the common scale */
    CSHIM_STEP_SUM,        /* the owner decodes and adds the parts */
    CSHIM_STEP_SUM_COLUMN, /* in a grid: owners in columns add the sums of rows */
    CSHIM_STEP_COLLECT,    /* sums are sent to their receivers; in cast, the library's all-reduce */
    CSHIM_STEP_FORWARD, /* in a grid: sums received through a column are forwarded along the row */
    CSHIM_STEP_DECODE,  /* sums, or parts that nobody adds up, are decoded */
    CSHIM_STEP_GATHER_INSIDE, /* the ranks of a node gather the shares */
    CSHIM_STEPS
};

/* Division of a segment's elements among the peers. */
enum cshim_division {
    CSHIM_WHOLE,  /* none: each receiver of the result adds everything itself */
    CSHIM_CHUNKS, /* even: each peer owns one chunk of each segment */
    CSHIM_BLOCKS  /* each peer has a block of the buffer, and a chunk of it in each segment */
};

/* Receivers of a message, besides its sender. */
enum cshim_receiver {
    CSHIM_TO_NOBODY,
    CSHIM_TO_ALL,    /* every other peer */
    CSHIM_TO_ROOT,   /* the root of a reduce */
    CSHIM_TO_OWNER,  /* the peer that adds these elements, forwards them, or keeps them */
    CSHIM_TO_LIBRARY /* the library's own all-reduce */
};

struct cshim_compiler;

/* One row: a collective by an algorithm. */
struct cshim_schedule {
    uint16_t steps; /* bit 1 << step for each step of enum cshim_step */
    enum cshim_division division;
    enum cshim_receiver parts_to;
    enum cshim_receiver sums_to;
    /* Memory of each segment in flight: pieces_per_peer encoded chunks for each peer plus
     * pieces_more; if `staged`, also one chunk per peer in the caller's type. */
    uint8_t pieces_per_peer;
    uint8_t pieces_more;
    bool staged;
    /* Number of times that a value is rounded; 0: once at every rank. */
    uint8_t quantizations;
    bool root_gives; /* only the root contributes; otherwise every peer does */
    /* Compiles the operations of a segment (shim/core/algorithms); NULL: the library's own
     * all-reduce makes the call. */
    void (*compile)(struct cshim_compiler *compiler);
};

/* Returns the schedule of a collective by an algorithm; NULL if there is none. Static. */
const struct cshim_schedule *cshim_schedule_of(enum cshim_collective collective,
                                               enum cshim_algorithm algorithm);

/* Returns the schedule of a grid whose peers are nodes; the ranks of a node share its work. Static.
 */
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

/* Returns true if the collective is a reduction; otherwise it only moves elements. */
bool cshim_schedule_adds(const struct cshim_schedule *schedule);

/* Returns true if all ranks get the same result, and a message of every peer. */
bool cshim_schedule_is_shared(const struct cshim_schedule *schedule);

/* Returns the bits of headroom that cast leaves in fp16, so that the sum of all ranks fits, plus
 * one bit for rounding at each hop of the library's all-reduce. */
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
    CSHIM_PHASE_DECODE, /* also includes adding */
    CSHIM_PHASES
};
enum cshim_phase cshim_step_phase(enum cshim_step step);

#endif
