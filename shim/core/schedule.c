/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/schedule.h"

#include <stddef.h>

#include "shim/core/compiler.h"

const struct cshim_shape cshim_shapes[CSHIM_COLLECTIVE_COUNT] = {
    [CSHIM_ALLREDUCE] = {.has_blocks = false, .ring_passes = 2},
    [CSHIM_REDUCE] = {.has_blocks = false, .ring_passes = 1},
    [CSHIM_REDUCE_SCATTER] = {.has_blocks = true, .ring_passes = 1},
    [CSHIM_ALLGATHER] = {.has_blocks = true, .ring_passes = 1},
    [CSHIM_ALLTOALL] = {.has_blocks = true, .ring_passes = 1},
    [CSHIM_BROADCAST] = {.has_blocks = false, .ring_passes = 1},
};

#define BIT(step) (1u << CSHIM_STEP_##step)

/* Every rank sends its parts to the owners, which add them. */
#define ADD_UP (BIT(ENCODE) | BIT(EXCHANGE) | BIT(SUM))
/* The sums are encoded again and sent to their receivers. */
#define AND_SEND_ON (BIT(COLLECT) | BIT(DECODE))
/* Receivers decode the parts; nothing is added. */
#define MOVE (BIT(ENCODE) | BIT(EXCHANGE) | BIT(DECODE))
/* Sums of rows are added in the columns before they are sent to their receivers. */
#define BY_GRID (ADD_UP | BIT(SUM_COLUMN) | BIT(FORWARD) | AND_SEND_ON)
#define INSIDE (BIT(REDUCE_INSIDE) | BIT(GATHER_INSIDE))

#define ROW(collective, algorithm) [CSHIM_##collective][CSHIM_ALGORITHM_##algorithm]

/* Rows without steps: the algorithm does not support the collective. */
static const struct cshim_schedule table[CSHIM_COLLECTIVE_COUNT][CSHIM_ALGORITHM_COUNT] = {
    ROW(ALLREDUCE, CAST) = {BIT(ENCODE) | BIT(EXCHANGE) | BIT(NARROW) | AND_SEND_ON, CSHIM_CHUNKS,
                            CSHIM_TO_LIBRARY, CSHIM_TO_ALL, 1, 0, false, 0, false, NULL},
    ROW(ALLREDUCE, ONE_SHOT) = {ADD_UP, CSHIM_WHOLE, CSHIM_TO_ALL, CSHIM_TO_NOBODY, 1, 1, false, 1,
                                false, cshim_compile_one_shot},
    ROW(ALLREDUCE, TWO_SHOT) = {ADD_UP | AND_SEND_ON, CSHIM_CHUNKS, CSHIM_TO_OWNER, CSHIM_TO_ALL, 3,
                                1, false, 2, false, cshim_compile_two_shot},
    ROW(ALLREDUCE, HIERARCHICAL) = {INSIDE | ADD_UP | AND_SEND_ON, CSHIM_CHUNKS, CSHIM_TO_OWNER,
                                    CSHIM_TO_ALL, 3, 1, true, 2, false, cshim_compile_hierarchical},
    ROW(ALLREDUCE, GRID) = {BY_GRID, CSHIM_CHUNKS, CSHIM_TO_OWNER, CSHIM_TO_ALL, 3, 0, false, 3,
                            false, cshim_compile_grid},
    ROW(REDUCE, ONE_SHOT) = {ADD_UP, CSHIM_WHOLE, CSHIM_TO_ROOT, CSHIM_TO_NOBODY, 1, 1, false, 1,
                             false, cshim_compile_one_shot},
    ROW(REDUCE, TWO_SHOT) = {ADD_UP | AND_SEND_ON, CSHIM_CHUNKS, CSHIM_TO_OWNER, CSHIM_TO_ROOT, 3,
                             1, false, 2, false, cshim_compile_two_shot},
    ROW(REDUCE, HIERARCHICAL) = {INSIDE | ADD_UP | AND_SEND_ON, CSHIM_CHUNKS, CSHIM_TO_OWNER,
                                 CSHIM_TO_ROOT, 3, 1, true, 2, false, cshim_compile_hierarchical},
    ROW(REDUCE_SCATTER, TWO_SHOT) = {ADD_UP, CSHIM_BLOCKS, CSHIM_TO_OWNER, CSHIM_TO_NOBODY, 3, 1,
                                     false, 1, false, cshim_compile_two_shot},
    ROW(REDUCE_SCATTER, HIERARCHICAL) = {BIT(REDUCE_INSIDE) | ADD_UP, CSHIM_BLOCKS, CSHIM_TO_OWNER,
                                         CSHIM_TO_NOBODY, 3, 1, true, 1, false,
                                         cshim_compile_hierarchical},
    ROW(ALLGATHER, ONE_SHOT) = {MOVE, CSHIM_BLOCKS, CSHIM_TO_ALL, CSHIM_TO_NOBODY, 1, 1, false, 1,
                                false, cshim_compile_allgather},
    ROW(ALLTOALL, ONE_SHOT) = {MOVE, CSHIM_BLOCKS, CSHIM_TO_OWNER, CSHIM_TO_NOBODY, 3, 1, false, 1,
                               false, cshim_compile_alltoall},
    ROW(BROADCAST, ONE_SHOT) = {MOVE, CSHIM_WHOLE, CSHIM_TO_ALL, CSHIM_TO_NOBODY, 0, 1, false, 1,
                                true, cshim_compile_broadcast},
    ROW(BROADCAST, TWO_SHOT) = {MOVE | BIT(COLLECT), CSHIM_CHUNKS, CSHIM_TO_OWNER, CSHIM_TO_ALL, 3,
                                1, false, 1, true, cshim_compile_scattered_broadcast},
};

static const struct cshim_schedule grid_of_nodes = {
    INSIDE | BY_GRID,           CSHIM_CHUNKS, CSHIM_TO_OWNER, CSHIM_TO_ALL, 3, 0, true, 3, false,
    cshim_compile_grid_of_nodes};

const struct cshim_schedule *cshim_schedule_grid_of_nodes(void)
{
    return &grid_of_nodes;
}

const struct cshim_schedule *cshim_schedule_of(enum cshim_collective collective,
                                               enum cshim_algorithm algorithm)
{
    if ((unsigned)collective >= CSHIM_COLLECTIVE_COUNT ||
        (unsigned)algorithm >= CSHIM_ALGORITHM_COUNT)
        return NULL;
    const struct cshim_schedule *schedule = &table[collective][algorithm];
    return schedule->steps != 0 ? schedule : NULL;
}

bool cshim_schedule_needs_library(const struct cshim_schedule *schedule)
{
    return schedule->parts_to == CSHIM_TO_LIBRARY || (schedule->steps & INSIDE) != 0;
}

bool cshim_schedule_adds(const struct cshim_schedule *schedule)
{
    return schedule->parts_to == CSHIM_TO_LIBRARY || cshim_schedule_has(schedule, CSHIM_STEP_SUM);
}

bool cshim_schedule_is_shared(const struct cshim_schedule *schedule)
{
    return schedule->parts_to == CSHIM_TO_ALL || schedule->sums_to == CSHIM_TO_ALL;
}

enum cshim_phase cshim_step_phase(enum cshim_step step)
{
    if (step == CSHIM_STEP_ENCODE || step == CSHIM_STEP_NARROW)
        return CSHIM_PHASE_ENCODE;
    return step == CSHIM_STEP_SUM || step == CSHIM_STEP_SUM_COLUMN || step == CSHIM_STEP_DECODE
               ? CSHIM_PHASE_DECODE
               : CSHIM_PHASE_EXCHANGE;
}
