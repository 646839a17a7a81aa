/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the capabilities of each communication library's engine, for policy, planner and tools.
 * Pure. */
#ifndef CSHIM_LIBRARY_H
#define CSHIM_LIBRARY_H

#include "policy/policy.h"

/* Limit on the bytes of a message between MPI ranks, unless CSHIM_NODE_PIECE_LIMIT applies (see
 * message_limit). By default, Open MPI's tcp transport sends up to 64 KiB at once; larger messages
 * wait for their receiver first, and then share the link badly. docs/decisions.md has the
 * measurements of this limit and of the next two. */
#define CSHIM_MPI_PIECE_LIMIT (60u << 10)
/* Limit on the bytes of a message between gloo's ranks: long enough for gloo's cost per message to
 * be small, and short enough for segments to overlap. */
#define CSHIM_GLOO_PIECE_LIMIT (256u << 10)
/* Limit on the bytes of a message in an all-reduce whose ranks are all on one node, and read
 * messages in place: long enough for its header, which is sent, to cost little, and so short that
 * the messages in flight stay in a level 2 cache. */
#define CSHIM_NODE_PIECE_LIMIT (96u << 10)

/* Largest scratch of a call in host memory on each rank, whatever the tensor's size. */
#define CSHIM_SCRATCH_LIMIT ((uint64_t)32 << 20)
/* Largest scratch of a call in device memory on each rank, whatever the tensor's size. */
#define CSHIM_NCCL_SCRATCH_LIMIT ((uint64_t)64 << 20)

struct cshim_capabilities {
    uint32_t collectives; /* bit 1 << collective for each collective that can be compressed */
    /* Limit on the bytes of a message. Messages in pieces of one grain may exceed it. Where ranks
     * read messages in place, CSHIM_NODE_PIECE_LIMIT replaces it. */
    uint64_t message_limit;
    uint64_t scratch_limit; /* bytes of the scratch of a call */
    bool has_bfloat16;      /* has elements of type bfloat16 */
    bool has_type_of_moves; /* calls of data-movement collectives have an argument for the elements'
                               type */
    bool has_max_rel_error; /* the ranks of a call share its encoding error */
    bool has_any_codec;     /* messages may vary in length, and reduced chunks use gather_codec */
    bool has_grid;          /* executes the algorithm grid */
    bool has_own_broadcast; /* the library broadcasts messages; each node receives them once */
    bool reads_in_place;    /* ranks of a node may read each other's messages in shared memory */
    bool adds_blocks_apart; /* the sum of a node's blocks needs memory of its own */
    bool on_device; /* works on device memory, in batches: segments of several calls may share a
                       quarter of the scratch */
};
extern const struct cshim_capabilities cshim_capabilities[CSHIM_LIBRARY_COUNT];

/* Returns true if calls of a collective can be compressed with a library at all. */
static inline bool cshim_library_compresses(enum cshim_library library,
                                            enum cshim_collective collective)
{
    return (cshim_capabilities[library].collectives >> collective & 1) != 0;
}

/* By enum cshim_op: bit 1 << library for each library whose reductions can be compressed. */
extern const uint32_t cshim_reduction_libraries[CSHIM_OP_COUNT];

/* Returns true if reductions by an operation can be compressed with a library at all. */
static inline bool cshim_library_reduces(enum cshim_library library, enum cshim_op op)
{
    return op < CSHIM_OP_COUNT && (cshim_reduction_libraries[op] >> library & 1) != 0;
}

/* Returns true if calls of a collective may have this operation: a data-movement collective has
 * CSHIM_SUM. */
static inline bool cshim_library_makes(enum cshim_library library, enum cshim_collective collective,
                                       enum cshim_op op)
{
    return cshim_library_reduces(library, op) &&
           (op == CSHIM_SUM || (CSHIM_MOVES >> collective & 1) == 0);
}

#endif
