/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/schedule.h"

#include "shim/core/compiler.h"

const struct cshim_shape cshim_shapes[CSHIM_COLLECTIVE_COUNT] = {
    [CSHIM_ALLREDUCE] = {.adds = true, .is_shared = true, .ring_passes = 2},
    [CSHIM_REDUCE] = {.adds = true, .ring_passes = 1},
    [CSHIM_REDUCE_SCATTER] = {.has_blocks = true, .adds = true, .ring_passes = 1},
    [CSHIM_ALLGATHER] = {.has_blocks = true, .is_shared = true, .ring_passes = 1},
    [CSHIM_ALLTOALL] = {.has_blocks = true, .ring_passes = 1},
    [CSHIM_BROADCAST] = {.is_shared = true, .ring_passes = 1},
};

#define ROW(collective, algorithm) [CSHIM_##collective][CSHIM_ALGORITHM_##algorithm]

const struct cshim_schedule cshim_schedules[CSHIM_COLLECTIVE_COUNT][CSHIM_ALGORITHM_COUNT] = {
    ROW(ALLREDUCE, CAST) = {CSHIM_CHUNKS, 1, 0, false, 0, NULL},
#define UNCOMPILED(...)
#define ALGORITHM(NAME, name, ...) ROW(ALLREDUCE, NAME) = {__VA_ARGS__, cshim_compile_##name},
#include "policy/algorithms.def"
    ROW(REDUCE, ONE_SHOT) = {CSHIM_WHOLE, 1, 1, false, 1, cshim_compile_one_shot},
    ROW(REDUCE, TWO_SHOT) = {CSHIM_CHUNKS, 3, 1, false, 2, cshim_compile_two_shot},
    ROW(REDUCE, HIERARCHICAL) = {CSHIM_CHUNKS, 3, 1, true, 2, cshim_compile_hierarchical},
    ROW(REDUCE_SCATTER, TWO_SHOT) = {CSHIM_BLOCKS, 3, 1, false, 1, cshim_compile_two_shot},
    ROW(REDUCE_SCATTER, HIERARCHICAL) = {CSHIM_BLOCKS, 3, 1, true, 1, cshim_compile_hierarchical},
    ROW(ALLGATHER, ONE_SHOT) = {CSHIM_BLOCKS, 1, 1, false, 1, cshim_compile_allgather},
    ROW(ALLTOALL, ONE_SHOT) = {CSHIM_BLOCKS, 3, 1, false, 1, cshim_compile_alltoall},
    ROW(BROADCAST, ONE_SHOT) = {CSHIM_WHOLE, 0, 1, false, 1, cshim_compile_broadcast},
    ROW(BROADCAST, TWO_SHOT) = {CSHIM_CHUNKS, 3, 1, false, 1, cshim_compile_scattered_broadcast},
};

const struct cshim_schedule cshim_schedule_grid_of_nodes = {
    CSHIM_CHUNKS, 3, 0, true, 3, cshim_compile_hierarchical};
