/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the NCCL engine: a round, the segments of calls that run at once. All their messages of a
 * step go in one group of NCCL, which saves launches, and which one thread that drives several
 * devices needs: it would wait for itself otherwise.
 *
 * A round is: reduce inside nodes; encode; exchange; sum; exchange; decode; gather inside nodes.
 * Each algorithm does some of it. Kernels and messages of a segment are on its call's stream. */
#ifndef CSHIM_NCCL_ROUND_H
#define CSHIM_NCCL_ROUND_H

#include "shim/nccl/internal.h"

/* One segment of a call. Addresses are the device's. */
struct cshim_segment {
    const struct cshim_nccl_call *call;
    uint64_t index;
    enum cshim_algorithm algorithm; /* the plan's, or two_shot for what hierarchical leaves over */
    ncclComm_t comm;                /* of the messages */
    uint32_t rank;                  /* on it */
    uint32_t peers;
    const uint8_t *input;
    uint8_t *output;
    uint64_t first;            /* number of the first element: for residuals and random numbers */
    uint64_t first_sum;        /* the same of this rank's sums, among all that it encodes */
    uint64_t length;           /* elements, of all pieces */
    uint64_t chunk;            /* of each piece but the last ones */
    uint64_t stride;           /* bytes from message to message */
    uint64_t input_stride;     /* elements from piece to piece in the caller's buffer */
    const uint8_t *node_input; /* hierarchical: the node's buffers, all shares */
    uint8_t *node_output;
    uint8_t *sent;     /* pieces for the peers */
    uint8_t *received; /* this rank's piece from each peer */
    uint8_t *gathered; /* the sums from each peer */
    uint32_t *largest; /* allreduce as fp16 */
};

/* segment.c: the next segment of a planned call, with its messages in the memory given, of which it
 * takes cshim_segment_memory at most. Returns how many there are: hierarchical may leave a second.
 */
size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_segment segments[2]);
uint64_t cshim_segment_memory(const struct cshim_nccl_call *call);
/* Elements of a piece. */
uint64_t cshim_segment_elements(const struct cshim_segment *segment, uint32_t piece);
/* Bytes of the caller's buffer that it is of. */
uint64_t cshim_segment_bytes(const struct cshim_segment *segment);

/* steps.c: enqueue a step's kernel, or a segment's part of NCCL's group. An algorithm
 * without the step does nothing. */
typedef ncclResult_t cshim_segment_step(const struct cshim_segment *segment);
cshim_segment_step cshim_step_reduce_inside;
cshim_segment_step cshim_step_encode;
cshim_segment_step cshim_step_exchange;
cshim_segment_step cshim_step_sum;
cshim_segment_step cshim_step_collect;
cshim_segment_step cshim_step_decode;
cshim_segment_step cshim_step_gather_inside;

/* timing.c: how long calls and their steps take, by events between what is enqueued on the streams
 * (lap.h). Begin comes behind the plans of the calls and before their first round; round before
 * each round's steps, step behind each step; end behind the last round, or with is_good false after
 * a failure, when nothing of it is told. */
void cshim_timing_begin(struct cshim_nccl_call *calls, size_t count);
void cshim_timing_round(const struct cshim_segment *segments, size_t count);
void cshim_timing_step(const struct cshim_segment *segments, size_t count,
                       enum cshim_round_step step);
void cshim_timing_end(struct cshim_nccl_call *calls, size_t count, bool is_good);

#endif
