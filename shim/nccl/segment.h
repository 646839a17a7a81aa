/* SPDX-License-Identifier: Apache-2.0 */
/* A segment: elements of a call that are encoded, exchanged and decoded together, and the addresses
 * of these elements and of their messages.
 *
 * The workspace holds a segment's messages in one of these layouts, by its schedule's parts_to
 * (shim/core/schedule.h). A message is a header and encoded elements. An area (`sent`, `received`,
 * `sums`) has a message for each peer, `stride` bytes apart.
 *
 *     CSHIM_TO_OWNER              | sent: to peer 0, 1, .. | received: from 0, 1, .. | sums |
 *     CSHIM_TO_ALL                | received: from peer 0, 1, ..; `sent` is this rank's own |
 *     the same, root_gives        | one message, both `sent` and `received` |
 *     CSHIM_TO_LIBRARY (cast)     | largest | sent: downcast elements, without a header |
 *
 * In hierarchical the layout follows the sum that the node has computed for this rank's share; with
 * blocks, it follows the blocks that the node adds. */
#ifndef CSHIM_NCCL_SEGMENT_H
#define CSHIM_NCCL_SEGMENT_H

#include "shim/nccl/describe.h"

/* All addresses are device addresses. */
struct cshim_nccl_segment {
    const struct cshim_nccl_call *call;
    const struct cshim_schedule *schedule; /* the plan's; cast for the remainder of the shares */
    ncclComm_t comm;                       /* communicator of the messages */
    uint32_t rank;                         /* this process's rank in `comm` */
    uint32_t peers;                        /* number of ranks of `comm` */
    const uint8_t *input;
    uint8_t *output;
    uint32_t number;       /* index among the call's segments, from 0 */
    uint64_t first;        /* index of the first element, for residuals and random numbers */
    uint64_t first_sum;    /* index of the first sum among all sums that this rank encodes */
    uint64_t length;       /* number of elements of the input, all pieces together */
    uint64_t result;       /* number of elements of the result */
    uint32_t pieces;       /* number of pieces of the input: one, or one for each peer */
    uint64_t chunk;        /* elements of a piece; the last pieces may be shorter */
    uint64_t stride;       /* bytes from message to message */
    uint64_t piece_stride; /* elements from piece to piece in the caller's buffer */
    /* hierarchical: the caller's buffers, while `input` and `output` are this rank's share in the
     * workspace. */
    const uint8_t *node_input;
    uint8_t *node_output;
    /* hierarchical with blocks: `chunk` elements of each block, ordered by local rank, then by
     * node, as NCCL's reduce-scatter needs them; otherwise NULL. */
    uint8_t *stage;
    uint8_t *sent;
    uint8_t *received;
    uint8_t *sums;
    uint32_t *largest; /* cast: largest magnitude, as the bits of a float32 */
};

/* Makes the next segment of a planned call, whose messages lie in the slot_bytes (of the plan) from
 * `memory`. Returns the number of segments made: one or, if the shares of hierarchical have a
 * remainder, up to two. */
size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_nccl_segment segments[2]);

/* steps.c: enqueues a step of a segment; does nothing if its schedule does not have the step. Steps
 * of CSHIM_PHASE_EXCHANGE are NCCL's operations on comm->runs_on; the caller opens an NCCL group
 * for them. The others are kernels on comm->kernels. The communicator's context must be current. */
ncclResult_t cshim_step_enqueue(const struct cshim_nccl_segment *segment, enum cshim_step step);

#endif
