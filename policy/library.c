/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/library.h"

#define ALL_COLLECTIVES ((1u << CSHIM_COLLECTIVE_COUNT) - 1)

const struct cshim_capabilities cshim_capabilities[CSHIM_LIBRARY_COUNT] = {
    [CSHIM_MPI] = {.collectives = ALL_COLLECTIVES,
                   .message_limit = CSHIM_MPI_PIECE_LIMIT,
                   .scratch_limit = CSHIM_SCRATCH_LIMIT,
                   .has_type_of_moves = true,
                   .has_max_rel_error = true,
                   .has_any_codec = true,
                   .has_grid = true,
                   .reads_in_place = true,
                   .adds_blocks_apart = true},
    [CSHIM_GLOO] = {.collectives =
                        ALL_COLLECTIVES & ~(1u << CSHIM_REDUCE | 1u << CSHIM_REDUCE_SCATTER),
                    .message_limit = CSHIM_GLOO_PIECE_LIMIT,
                    .scratch_limit = CSHIM_SCRATCH_LIMIT,
                    .has_bfloat16 = true,
                    .has_any_codec = true,
                    .has_grid = true,
                    .adds_blocks_apart = true},
    /* Only the scratch and 32-bit counts limit the messages between GPUs: each exchange is a launch
     * on every GPU, so a few long messages take less time than many short ones. */
    [CSHIM_NCCL] = {.collectives = ALL_COLLECTIVES & ~(1u << CSHIM_REDUCE),
                    .message_limit = (uint64_t)1 << 32,
                    .scratch_limit = CSHIM_NCCL_SCRATCH_LIMIT,
                    .has_type_of_moves = true,
                    .has_bfloat16 = true,
                    .has_own_broadcast = true,
                    .on_device = true},
};

const uint32_t cshim_reduction_libraries[CSHIM_OP_COUNT] = {
#define REDUCTION(NAME, name, LIBRARIES, ...) [CSHIM_##NAME] = LIBRARIES,
#include "policy/reductions.def"
};
