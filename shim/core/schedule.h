/* SPDX-License-Identifier: Apache-2.0 */
/* The table of collectives and algorithms (schedule.c): how a call is divided, the memory of each
 * segment in flight, and the compiler of its operations (shim/core/algorithms). Pure: calls
 * neither MPI nor CUDA, and has no mutable globals. Thread-safe. */
#ifndef CSHIM_SCHEDULE_H
#define CSHIM_SCHEDULE_H

#include <stddef.h>

#include "policy/policy.h"

/* Properties of a collective that do not depend on the algorithm. */
struct cshim_shape {
    bool has_blocks;      /* the call's larger buffer holds a block for each rank */
    bool adds;            /* it is a reduction; otherwise it only moves elements */
    bool is_shared;       /* all ranks get the same result */
    unsigned ring_passes; /* a ring of all ranks sends the larger buffer ring_passes * (ranks - 1)
                             times */
};
extern const struct cshim_shape cshim_shapes[CSHIM_COLLECTIVE_COUNT];

/* Division of a segment's elements among the peers. */
enum cshim_division {
    CSHIM_WHOLE,  /* none: each receiver of the result gets (and adds) all elements itself */
    CSHIM_CHUNKS, /* even: each peer (in a grid, column) owns a chunk, maybe empty, of each share */
    CSHIM_BLOCKS  /* each rank has a block of the buffer, and a chunk of it in each segment */
};

struct cshim_compiler;

/* A row of the table: how an algorithm makes a collective. */
struct cshim_schedule {
    enum cshim_division division;
    /* Memory of each segment in flight: pieces_per_peer messages for each peer of the row and, in a
     * grid, of the column; pieces_more messages; and, if `staged`, the stage. */
    uint8_t pieces_per_peer;
    uint8_t pieces_more;
    bool staged; /* the ranks of a node first add their elements; each rank adds a share */
    /* Number of roundings of a value by a lossy codec; 0: one at every rank. */
    uint8_t quantizations;
    /* Compiles the operations of a segment; NULL (cast): the library's own all-reduce makes the
     * call. */
    void (*compile)(struct cshim_compiler *compiler);
};

/* Rows of zeros: the algorithm does not support the collective. */
extern const struct cshim_schedule cshim_schedules[CSHIM_COLLECTIVE_COUNT][CSHIM_ALGORITHM_COUNT];
/* Schedule of a grid with nodes as peers: plan->shares ranks of each node exchange a share each. */
extern const struct cshim_schedule cshim_schedule_grid_of_nodes;

/* Returns the schedule of a collective by an algorithm; NULL if there is none. */
static inline const struct cshim_schedule *cshim_schedule_of(enum cshim_collective collective,
                                                             enum cshim_algorithm algorithm)
{
    const struct cshim_schedule *schedule = &cshim_schedules[collective][algorithm];
    return schedule->pieces_per_peer + schedule->pieces_more > 0 ? schedule : NULL;
}

/* Returns true if a schedule uses the library's own all-reduce (cast), or its collectives within a
 * node (staged), for which a caller in host memory has to wait. */
static inline bool cshim_schedule_needs_library(const struct cshim_schedule *schedule)
{
    return schedule->compile == NULL || schedule->staged;
}

/* Returns the bits of headroom that cast leaves in fp16: enough for the sum over all ranks, and one
 * more for the roundings at the hops of the library's all-reduce. */
static inline uint32_t cshim_cast_headroom(uint32_t ranks)
{
    uint32_t bits = 1;
    while (bits < 31 && 1u << (bits - 1) < ranks)
        bits++;
    return bits;
}

/* Returns the element type to which cast converts: the library adds elements of this type. Not for
 * codec raw, with which cast converts nothing. */
static inline enum cshim_dtype cshim_cast_dtype(enum cshim_codec_id codec)
{
    return codec == CSHIM_CODEC_FP16   ? CSHIM_FLOAT16
           : codec == CSHIM_CODEC_BF16 ? CSHIM_BFLOAT16
                                       : CSHIM_FLOAT32;
}

#endif
