/* SPDX-License-Identifier: Apache-2.0 */
/* Where a segment's elements and messages lie. */
#include "shim/nccl/round.h"

static uint64_t minimum(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t stride_of(const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = &segment->call->plan;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, segment->chunk);
}

/* The longest chunk that a rank owns of a segment. */
static uint64_t chunk_of(const struct cshim_plan *plan)
{
    return plan->segment / (plan->peers * plan->shares);
}

/* Elements [first, first + length) of the call. */
static struct cshim_segment start(const struct cshim_nccl_call *call, uint64_t first,
                                  uint64_t length)
{
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype);
    return (struct cshim_segment){
        .call = call,
        .index = call->segments_done,
        .algorithm = call->plan.algorithm,
        .comm = call->comm->comm,
        .rank = (uint32_t)call->comm->rank,
        .peers = (uint32_t)call->comm->ranks,
        .input = (const uint8_t *)call->send + first * element,
        .output = (uint8_t *)call->receive + first * element,
        .first = first,
        .first_sum = call->segments_done * chunk_of(&call->plan),
        .length = length,
    };
}

/* Places the messages: for the peers, from them, and the sums. Returns what is behind. */
static uint8_t *place(struct cshim_segment *segment, uint8_t *memory)
{
    const uint64_t area = segment->peers * segment->stride;
    if (segment->algorithm == CSHIM_ALGORITHM_ONE_SHOT) {
        segment->gathered = memory;
        return memory + area;
    }
    segment->sent = memory;
    segment->received = memory + area;
    segment->gathered = memory + 2 * area;
    return memory + 3 * area;
}

static uint8_t *cut(struct cshim_segment *segment, uint8_t *memory)
{
    uint64_t begin;
    segment->chunk = segment->length;
    if (segment->algorithm != CSHIM_ALGORITHM_ONE_SHOT)
        cshim_plan_chunk(segment->length, segment->peers, 0, &begin, &segment->chunk);
    segment->input_stride = segment->chunk;
    segment->stride = stride_of(segment);
    return place(segment, memory);
}

/* A part of each rank's result, which lie apart. */
static void scatter(const struct cshim_nccl_call *call, uint8_t *memory,
                    struct cshim_segment *segment)
{
    const uint64_t chunk = chunk_of(&call->plan);
    const uint64_t first = call->segments_done * chunk;
    const uint64_t length = minimum(chunk, call->count - first);
    *segment = start(call, first, length * call->plan.peers);
    segment->first = first * call->plan.peers;
    segment->chunk = length;
    segment->input_stride = call->count;
    segment->stride = stride_of(segment);
    place(segment, memory);
}

/* A part of this rank's block, and room for that of each rank. */
static void gather(const struct cshim_nccl_call *call, uint8_t *memory,
                   struct cshim_segment *segment)
{
    const uint64_t chunk = chunk_of(&call->plan);
    const uint64_t first = call->segments_done * chunk;
    *segment = start(call, first, minimum(chunk, call->count - first));
    cut(segment, memory);
}

/* The sums of a node's share: on its way through the nodes, in place. */
static uint8_t *share(const struct cshim_nccl_call *call, uint64_t first, uint64_t each,
                      uint8_t *memory, struct cshim_segment *segment)
{
    const struct cshim_nccl_comm *comm = call->comm;
    *segment = start(call, first, each);
    segment->node_input = segment->input;
    segment->node_output = segment->output;
    segment->input = memory;
    segment->output = memory;
    segment->first = first + comm->local_rank * each;
    segment->comm = comm->across;
    segment->rank = comm->node;
    segment->peers = comm->nodes;
    /* Whole grains are whole multiples of CSHIM_WIRE_ALIGN. */
    return cut(segment, memory + each * cshim_dtype_bytes(call->plan.dtype));
}

/* A share of whole grains for each rank of the node, all of one length, as NCCL's own collectives
 * need them. What is left over, less than a grain for each, goes from all ranks to all. */
static size_t share_out(const struct cshim_nccl_call *call, uint64_t first, uint64_t length,
                        uint8_t *memory, struct cshim_segment segments[2])
{
    const uint64_t row = (uint64_t)call->comm->ranks_per_node * CSHIM_GRAIN;
    const uint64_t left = length % row;
    size_t made = 0;
    if (length >= row)
        memory = share(call, first, length / row * CSHIM_GRAIN, memory, &segments[made++]);
    if (left == 0)
        return made;
    segments[made] = start(call, first + length - left, left);
    segments[made].algorithm = CSHIM_ALGORITHM_TWO_SHOT;
    segments[made].first_sum = call->plan.segments * chunk_of(&call->plan);
    cut(&segments[made], memory);
    return made + 1;
}

size_t cshim_segment_make(const struct cshim_nccl_call *call, uint8_t *memory,
                          struct cshim_segment segments[2])
{
    const struct cshim_plan *plan = &call->plan;
    if (call->collective == CSHIM_REDUCE_SCATTER) {
        scatter(call, memory, segments);
        return 1;
    }
    if (call->collective == CSHIM_ALLGATHER) {
        gather(call, memory, segments);
        return 1;
    }
    const uint64_t first = call->segments_done * plan->segment;
    const uint64_t length = minimum(plan->segment, plan->count - first);
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        return share_out(call, first, length, memory, segments);
    segments[0] = start(call, first, length);
    if (plan->algorithm != CSHIM_ALGORITHM_CAST) {
        cut(&segments[0], memory);
        return 1;
    }
    segments[0].largest = (uint32_t *)memory;
    segments[0].sent = memory + CSHIM_WIRE_ALIGN;
    return 1;
}

uint64_t cshim_segment_bytes(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    uint64_t elements = segment->length;
    if (segment->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        elements *= call->comm->ranks_per_node;
    if (call->collective == CSHIM_ALLGATHER)
        elements *= segment->peers;
    return elements * cshim_dtype_bytes(call->plan.dtype);
}

uint64_t cshim_segment_memory(const struct cshim_nccl_call *call)
{
    const struct cshim_plan *plan = &call->plan;
    uint64_t left = 0;
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        left = 3 * (uint64_t)plan->ranks *
               (CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, CSHIM_GRAIN));
    return plan->slot_bytes + left;
}
