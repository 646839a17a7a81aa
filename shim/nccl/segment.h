/* SPDX-License-Identifier: Apache-2.0 */
/* A segment of a call on a device: elements that are encoded, exchanged and decoded together. Its
 * list of operations (shim/core/operation.h) says which messages lie where, and who gets them. A
 * step executes all of its operations at once, as one kernel or in one NCCL group. The messages of
 * a kernel lie plan->piece_bytes apart, except the contribution that a rank encodes for itself. A
 * segment without operations is added by NCCL's all-reduce: in cast (after a conversion, unless the
 * codec is raw), and in hierarchical the elements beyond equal shares. */
#ifndef CSHIM_NCCL_SEGMENT_H
#define CSHIM_NCCL_SEGMENT_H

#include "shim/nccl/describe.h"
#include "shim/nccl/timeline.h"

/* All addresses are device addresses. */
struct cshim_nccl_segment {
    const struct cshim_nccl_call *call;
    struct cshim_operations operations;
    uint16_t steps;  /* bit 1 << step for each step of enum cshim_step that the segment has */
    bool is_rest;    /* hierarchical: the elements beyond equal shares, which NCCL adds */
    uint32_t number; /* index among the call's segments, from 0 */
    uint8_t *memory; /* scratch of the segment: messages, then the stage of hierarchical */
    /* First element to encode, and first result. In hierarchical they lie in the stage, except if
     * is_rest is true, and except the result of a reduce-scatter. node_input and node_output lie in
     * the caller's buffers. */
    const uint8_t *input;
    uint8_t *output;
    const uint8_t *node_input;
    uint8_t *node_output;
    uint64_t first;        /* index of the first element, for residuals and random numbers */
    uint64_t length;       /* number of elements of the input, all pieces together */
    uint64_t result;       /* number of elements of the segment in the call's larger buffer */
    uint64_t piece_stride; /* elements from piece to piece of input or output; 0: contiguous */
};

/* Makes the next segment of a planned call, with plan->slot_bytes of scratch at `memory`. Sets
 * *made to the number of segments made: one; two in hierarchical if elements are left after its
 * equal shares. Reuses the memory of the operations that `segments` had before. */
ncclResult_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                                struct cshim_nccl_segment segments[2], size_t *made);

/* Returns the address of the stage, which follows the messages. */
static inline uint8_t *cshim_segment_stage(const struct cshim_nccl_segment *segment)
{
    const struct cshim_plan *plan = &segment->call->plan;
    return segment->memory + plan->slot_bytes - plan->stage_bytes;
}

#endif
