/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/segment.h"

/* The longest chunk that a rank owns of a segment. */
static uint64_t chunk_of(const struct cshim_plan *plan)
{
    return plan->segment / (plan->peers * plan->shares);
}

/* Element `first` of the caller's buffers is the first one of the segment. Where the library adds
 * inside nodes, the messages go to one rank of each node. */
static struct cshim_segment start(const struct cshim_nccl_call *call,
                                  const struct cshim_schedule *schedule, uint64_t first,
                                  uint64_t length)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype);
    const uint8_t *input = (const uint8_t *)call->send + first * element;
    uint8_t *output = (uint8_t *)call->receive + first * element;
    return (struct cshim_segment){
        .call = call,
        .schedule = schedule,
        .comm = schedule->staged ? comm->across : comm->comm,
        .rank = schedule->staged ? comm->node : (uint32_t)comm->rank,
        .peers = schedule->staged ? comm->nodes : (uint32_t)comm->ranks,
        .input = input,
        .output = output,
        .node_input = input,
        .node_output = output,
        .number = (uint32_t)call->segments_done,
        .first = first,
        .first_sum = call->segments_done * chunk_of(&call->plan),
        .length = length,
        .result = length,
        .pieces = 1,
        .chunk = length,
    };
}

/* Places the segment's messages as the comment in segment.h draws them. */
static void place(struct cshim_segment *segment, uint8_t *memory)
{
    const struct cshim_plan *plan = &segment->call->plan;
    segment->stride =
        CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, segment->chunk);
    const uint64_t area = segment->peers * segment->stride;
    switch (segment->schedule->parts_to) {
    case CSHIM_TO_LIBRARY:
        segment->largest = (uint32_t *)memory;
        segment->sent = memory + CSHIM_WIRE_ALIGN;
        break;
    case CSHIM_TO_OWNER:
        segment->sent = memory;
        segment->received = memory + area;
        segment->sums = memory + 2 * area;
        break;
    default:
        segment->received = memory;
        segment->sent =
            memory + (segment->schedule->root_gives ? 0 : segment->rank * segment->stride);
    }
}

/* Divides the segment's elements evenly among the peers, if its schedule wants that. */
static void divide(struct cshim_segment *segment, uint8_t *memory)
{
    uint64_t begin;
    if (segment->schedule->division == CSHIM_CHUNKS) {
        segment->pieces = segment->peers;
        cshim_plan_chunk(segment->length, segment->peers, 0, &begin, &segment->chunk);
    }
    segment->piece_stride = segment->chunk;
    place(segment, memory);
}

/* The same chunk of every peer's block, where the call has blocks. They lie apart in the buffer
 * that holds all blocks: in the input where an owner adds them up, else in the result. Where the
 * library adds inside nodes, the input is what the node has added of the blocks of this local rank
 * on all nodes. */
static struct cshim_segment make_chunk_of_blocks(const struct cshim_nccl_call *call,
                                                 uint8_t *memory)
{
    const struct cshim_plan *plan = &call->plan;
    const uint64_t chunk = chunk_of(plan);
    const uint64_t first = call->segments_done * chunk;
    const uint64_t left = call->count - first, length = left < chunk ? left : chunk;
    struct cshim_segment segment = start(call, plan->schedule, first, length);
    if (plan->schedule->parts_to == CSHIM_TO_OWNER)
        segment.pieces = plan->peers;
    segment.first = first * segment.pieces;
    segment.length = length * segment.pieces;
    segment.result = length * plan->ranks;
    segment.piece_stride = call->count;
    if (plan->schedule->staged) {
        segment.stage = memory;
        segment.input =
            memory + call->comm->local_rank * segment.length * cshim_dtype_bytes(plan->dtype);
        segment.piece_stride = length;
    }
    place(&segment, memory + plan->stage_bytes);
    return segment;
}

/* This rank's share of the node's sum, which the library puts into `memory`. There it is added to
 * the same share of the other nodes, in place. */
static void make_share(const struct cshim_nccl_call *call, uint64_t first, uint64_t share,
                       uint8_t *memory, struct cshim_segment *segment)
{
    const struct cshim_nccl_comm *comm = call->comm;
    *segment = start(call, call->plan.schedule, first, share);
    segment->input = memory;
    segment->output = memory;
    segment->first = first + comm->local_rank * share;
    segment->result = share * comm->ranks_per_node;
    /* Whole grains are whole multiples of CSHIM_WIRE_ALIGN. */
    divide(segment, memory + share * cshim_dtype_bytes(call->plan.dtype));
}

/* Each rank of a node gets a share of whole grains. All shares are of one length, as the library's
 * own collectives need it. Less than a grain for each rank is left over, which the library adds up
 * as it is. */
static size_t make_shares(const struct cshim_nccl_call *call, uint64_t first, uint64_t length,
                          uint8_t *memory, struct cshim_segment segments[2])
{
    const uint64_t row = (uint64_t)call->comm->ranks_per_node * CSHIM_GRAIN;
    const uint64_t left = length % row;
    size_t made = 0;
    if (length >= row)
        make_share(call, first, length / row * CSHIM_GRAIN, memory, &segments[made++]);
    if (left > 0)
        segments[made++] = start(call, cshim_schedule_of(call->collective, CSHIM_ALGORITHM_CAST),
                                 first + length - left, left);
    return made;
}

size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_segment segments[2])
{
    const struct cshim_plan *plan = &call->plan;
    if (plan->schedule->division == CSHIM_BLOCKS) {
        segments[0] = make_chunk_of_blocks(call, memory);
        return 1;
    }
    const uint64_t first = call->segments_done * plan->segment;
    const uint64_t left = plan->count - first;
    const uint64_t length = left < plan->segment ? left : plan->segment;
    if (plan->schedule->staged)
        return make_shares(call, first, length, memory, segments);
    segments[0] = start(call, plan->schedule, first, length);
    divide(&segments[0], memory);
    return 1;
}
