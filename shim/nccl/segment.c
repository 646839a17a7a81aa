/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/segment.h"

/* Returns the number of elements of the largest chunk that a peer owns in a segment. */
static uint64_t chunk_of(const struct cshim_plan *plan)
{
    return plan->segment / (plan->peers * plan->shares);
}

/* Returns a segment of `length` elements from index `first` of the caller's buffers, in one piece
 * and without messages. In hierarchical the peers are this local rank on all nodes. */
static struct cshim_nccl_segment begin_segment(const struct cshim_nccl_call *call,
                                               const struct cshim_schedule *schedule,
                                               uint64_t first, uint64_t length)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype);
    const uint8_t *input = (const uint8_t *)call->send + first * element;
    uint8_t *output = (uint8_t *)call->receive + first * element;
    return (struct cshim_nccl_segment){
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

/* Sets the addresses of the segment's messages, as drawn in segment.h. */
static void place_messages(struct cshim_nccl_segment *segment, uint8_t *memory)
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

/* Cuts the segment's elements into an even chunk for each peer if its schedule does so
 * (CSHIM_CHUNKS), then sets the addresses of the messages. */
static void divide_segment(struct cshim_nccl_segment *segment, uint8_t *memory)
{
    uint64_t begin;
    if (segment->schedule->division == CSHIM_CHUNKS) {
        segment->pieces = segment->peers;
        cshim_plan_chunk(segment->length, segment->peers, 0, &begin, &segment->chunk);
    }
    segment->piece_stride = segment->chunk;
    place_messages(segment, memory);
}

/* Makes a segment of a call with blocks: the same chunk of each peer's block. These chunks lie a
 * block apart in the buffer that holds all blocks, which is the input of a reduce-scatter,
 * otherwise the output. In hierarchical the input is the node's sum of the blocks of this local
 * rank on all nodes. */
static struct cshim_nccl_segment make_chunk_of_blocks(const struct cshim_nccl_call *call,
                                                      uint8_t *memory)
{
    const struct cshim_plan *plan = &call->plan;
    const uint64_t chunk = chunk_of(plan);
    const uint64_t first = call->segments_done * chunk;
    const uint64_t left = call->count - first, length = left < chunk ? left : chunk;
    struct cshim_nccl_segment segment = begin_segment(call, plan->schedule, first, length);
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
    place_messages(&segment, memory + plan->stage_bytes);
    return segment;
}

/* Makes the segment of this rank's share of the node's sum, which NCCL writes to `memory`. The
 * shares of all nodes are added there, in place. */
static void make_share(const struct cshim_nccl_call *call, uint64_t first, uint64_t share,
                       uint8_t *memory, struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_comm *comm = call->comm;
    *segment = begin_segment(call, call->plan.schedule, first, share);
    segment->input = memory;
    segment->output = memory;
    segment->first = first + comm->local_rank * share;
    segment->result = share * comm->ranks_per_node;
    /* The messages are aligned, because the bytes of a grain are a multiple of CSHIM_WIRE_ALIGN. */
    divide_segment(segment, memory + share * cshim_dtype_bytes(call->plan.dtype));
}

/* Cuts a segment into a share of whole grains for each rank of the node. All shares are of one
 * length, as NCCL's reduce-scatter and all-gather require. The remainder, less than a grain for
 * each rank, becomes a second segment that NCCL adds uncompressed. Returns the number of segments.
 */
static size_t make_shares(const struct cshim_nccl_call *call, uint64_t first, uint64_t length,
                          uint8_t *memory, struct cshim_nccl_segment segments[2])
{
    const uint64_t row = (uint64_t)call->comm->ranks_per_node * CSHIM_GRAIN;
    const uint64_t left = length % row;
    size_t made = 0;
    if (length >= row)
        make_share(call, first, length / row * CSHIM_GRAIN, memory, &segments[made++]);
    if (left > 0)
        segments[made++] =
            begin_segment(call, cshim_schedule_of(call->collective, CSHIM_ALGORITHM_CAST),
                          first + length - left, left);
    return made;
}

size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_nccl_segment segments[2])
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
    segments[0] = begin_segment(call, plan->schedule, first, length);
    divide_segment(&segments[0], memory);
    return 1;
}
