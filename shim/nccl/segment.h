/* SPDX-License-Identifier: Apache-2.0 */
/* A segment: the elements of a call that are encoded, exchanged and decoded at once, and where they
 * and their messages lie.
 *
 * The workspace holds the messages of a segment like this. A piece is one message: a header and
 * encoded elements. Areas have a piece for each peer, `stride` bytes apart.
 *
 *     parts go to their owners       | sent: to peer 0, 1, ..   | received: from 0, 1, .. | sums |
 *     parts go to all, or the root   | received: from peer 0, 1, ..; `sent` is this rank's own |
 *     the root's part goes to all    | received, and sent: the same on all ranks |
 *     parts go to the library        | largest | sent: narrowed elements, without a header |
 *
 * Where the library adds inside nodes, the node's sum of this rank's share lies in front; of
 * blocks, all that the node adds. */
#ifndef CSHIM_NCCL_SEGMENT_H
#define CSHIM_NCCL_SEGMENT_H

#include "shim/nccl/describe.h"

/* All addresses are the device's. */
struct cshim_segment {
    const struct cshim_nccl_call *call;
    const struct cshim_schedule *schedule; /* the plan's, but for what shares leave over */
    ncclComm_t comm;                       /* of the messages */
    uint32_t rank;                         /* of this process on `comm` */
    uint32_t peers;                        /* ranks of `comm` */
    const uint8_t *input;
    uint8_t *output;
    uint32_t number;       /* of the call's segments, from 0 */
    uint64_t first;        /* number of the first element: for residuals and random numbers */
    uint64_t first_sum;    /* the place of this rank's sums among all sums that it encodes */
    uint64_t length;       /* elements of the input, of all pieces */
    uint64_t result;       /* elements of the result */
    uint32_t pieces;       /* that the input is cut into: one, or one for each peer */
    uint64_t chunk;        /* elements of a piece; the last ones may be shorter */
    uint64_t stride;       /* bytes from message to message */
    uint64_t piece_stride; /* elements from piece to piece in the caller's buffer of pieces */
    /* Where the library adds inside nodes: the caller's buffers, of which input and output are this
     * rank's share in the workspace. Of blocks `stage` is where the node's lie for the library:
     * those of each local rank on all nodes behind each other, `chunk` elements of each. */
    const uint8_t *node_input;
    uint8_t *node_output;
    uint8_t *stage; /* or NULL */
    uint8_t *sent;
    uint8_t *received;
    uint8_t *sums;
    uint32_t *largest; /* the largest magnitude, as the bits of a float32 */
};

/* Makes the next segment of a planned call, with its messages in the memory given, of which it
 * takes the plan's slot_bytes. Returns how many segments were made: one, or two where shares inside
 * nodes leave some elements over. */
size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_segment segments[2]);

/* steps.c: enqueues a step, kernels on the communicator's stream for them, messages on that of its
 * calls. Does nothing if the segment's schedule has no such step. Steps of CSHIM_PHASE_EXCHANGE are
 * calls of NCCL and belong into a group of it. The others are kernels and need the context of the
 * communicator. */
ncclResult_t cshim_step_enqueue(const struct cshim_segment *segment, enum cshim_step step);

#endif
