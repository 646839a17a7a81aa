/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/segment.h"

#include "shim/core/compiler.h"

#define CAST_STEPS                                                                                 \
    (1u << CSHIM_STEP_ENCODE | 1u << CSHIM_STEP_EXCHANGE | 1u << CSHIM_STEP_NARROW |               \
     1u << CSHIM_STEP_COLLECT | 1u << CSHIM_STEP_DECODE)

/* Begins a segment of `length` elements from index `first` of the caller's buffers, without
 * operations. */
static void begin_segment(struct cshim_nccl_segment *segment, const struct cshim_nccl_call *call,
                          uint8_t *memory, uint64_t first, uint64_t length)
{
    const uint64_t begin = first * cshim_dtype_bytes(call->plan.dtype);
    struct cshim_operations operations = segment->operations;
    operations.count = 0;
    *segment = (struct cshim_nccl_segment){
        .call = call,
        .operations = operations,
        .steps = 1u << CSHIM_STEP_COLLECT,
        .number = (uint32_t)call->segments_done,
        .memory = memory,
        .input = (const uint8_t *)call->send + begin,
        .output = (uint8_t *)call->receive + begin,
        .node_input = (const uint8_t *)call->send + begin,
        .node_output = (uint8_t *)call->receive + begin,
        .first = first,
        .length = length,
        .result = length,
    };
}

/* Begins a segment of a call with blocks: the same chunk of each peer's block. These chunks lie a
 * block apart in a buffer that holds all blocks: the input of a reduce-scatter, the output of an
 * all-gather, both of an all-to-all. In hierarchical the stage holds this rank's chunk of each
 * rank's block, ordered by the local rank of the blocks' ranks. The input is the node's sums of the
 * chunks for the ranks with this rank's local rank, one on each node. The sums replace this rank's
 * own chunks in the stage. */
static void begin_chunk_of_blocks(struct cshim_nccl_segment *segment,
                                  const struct cshim_nccl_call *call, uint8_t *memory)
{
    const struct cshim_plan *plan = &call->plan;
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    const uint64_t first = call->segments_done * chunk;
    const uint64_t left = call->count - first, length = left < chunk ? left : chunk;
    const uint64_t pieces = plan->collective == CSHIM_ALLGATHER ? 1 : plan->peers;
    begin_segment(segment, call, memory, first, length);
    segment->first = first * pieces;
    segment->length = length * pieces;
    segment->result = length * plan->ranks;
    segment->piece_stride = call->count;
    if (!plan->schedule->staged)
        return;
    segment->input = cshim_segment_stage(segment) + (uint64_t)call->comm->layout.local_rank *
                                                        segment->length *
                                                        cshim_dtype_bytes(plan->dtype);
    segment->piece_stride = length;
}

/* Begins a segment of a call without blocks. In hierarchical, the input is this rank's share of the
 * node's sum, in the stage; the output, the sum over all nodes, replaces the input. */
static void begin_chunks(struct cshim_nccl_segment *segment, const struct cshim_nccl_call *call,
                         uint8_t *memory, const struct cshim_segment *ranges)
{
    begin_segment(segment, call, memory, ranges->whole.begin, ranges->whole.length);
    if (!call->plan.schedule->staged)
        return;
    segment->input = segment->output = cshim_segment_stage(segment);
    segment->first = ranges->share.begin;
    segment->length = ranges->share.length;
}

static ncclResult_t compile(struct cshim_nccl_segment *segment, const struct cshim_segment *ranges)
{
    const struct cshim_plan *plan = &segment->call->plan;
    if (!cshim_compile(&segment->operations, ranges)) {
        cshim_log(CSHIM_LOG_ERROR, "no memory for the operations of a call");
        return ncclSystemError;
    }
    if (segment->operations.count > 0)
        segment->steps = cshim_steps_of(&segment->operations);
    else if (plan->codec != CSHIM_CODEC_RAW)
        segment->steps = CAST_STEPS;
    return ncclSuccess;
}

ncclResult_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                                struct cshim_nccl_segment segments[2], size_t *made)
{
    const struct cshim_plan *plan = &call->plan;
    const struct cshim_segment ranges = cshim_segment_at(&call->role, call->segments_done);
    const uint64_t end = ranges.whole.begin + ranges.whole.length;
    const uint64_t next = (call->segments_done + 1) * plan->segment;
    const uint64_t rest = (next < plan->count ? next : plan->count) - end;
    ncclResult_t status = ncclSuccess;
    *made = 0;
    if (plan->schedule->division == CSHIM_BLOCKS)
        begin_chunk_of_blocks(&segments[(*made)++], call, memory);
    else if (ranges.whole.length > 0)
        begin_chunks(&segments[(*made)++], call, memory, &ranges);
    if (*made > 0)
        status = compile(&segments[0], &ranges);
    if (plan->schedule->division == CSHIM_BLOCKS || rest == 0)
        return status;
    begin_segment(&segments[*made], call, memory, end, rest);
    segments[(*made)++].is_rest = true;
    return status;
}
