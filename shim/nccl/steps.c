/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a segment's schedule, as kernels and NCCL's calls. */
#include "codecs/scalar.h"
#include "shim/core/header.h"
#include "shim/nccl/segment.h"

/* Elements of a piece of the input; 0 for a piece that is empty. */
static uint64_t elements_of(const struct cshim_segment *segment, uint32_t piece)
{
    const uint64_t begin = piece * segment->chunk;
    const uint64_t left = begin < segment->length ? segment->length - begin : 0;
    return left < segment->chunk ? left : segment->chunk;
}

static uint64_t message_bytes(const struct cshim_segment *segment, uint32_t piece)
{
    const struct cshim_plan *plan = &segment->call->plan;
    const uint64_t elements = elements_of(segment, piece);
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

static void set_header(uint32_t words[CSHIM_KERNEL_HEADER_WORDS],
                       const struct cshim_segment *segment, enum cshim_message message)
{
    const struct cshim_header header = cshim_header_make(
        &segment->call->plan, segment->call->sequence, segment->number, message, 0, 0);
    memcpy(words, &header, sizeof header);
}

static ncclResult_t launch(const struct cshim_segment *segment,
                           enum cshim_kernel_operation operation, uint64_t count, void *parameters)
{
    const struct cshim_nccl_comm *comm = segment->call->comm;
    const CUresult result = cshim_kernel_launch(
        operation, segment->call->plan.codec, segment->call->comm->kernels,
        cshim_kernel_blocks(operation, count, (uint32_t)comm->processors), parameters);
    return cshim_device_check(result, "launching a kernel");
}

/* Copies the node's blocks to where the library adds them. */
static ncclResult_t stage_blocks(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_nccl_comm *comm = call->comm;
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype), bytes = segment->chunk * element;
    CUresult result = CUDA_SUCCESS;
    for (uint32_t place = 0; place < (uint32_t)comm->ranks && result == CUDA_SUCCESS; place++) {
        const uint32_t node = place % comm->nodes, local_rank = place / comm->nodes;
        const uint64_t block = comm->ranks_by_node[node * comm->ranks_per_node + local_rank];
        const uint8_t *from = segment->node_input + block * call->count * element;
        result = cshim_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)(segment->stage + place * bytes),
                                        (CUdeviceptr)(uintptr_t)from, bytes, call->comm->runs_on);
    }
    return cshim_device_check(result, "copying blocks of a node");
}

/* An operation with a factor belongs to a communicator: for that of a node one is made alike. A
 * node's sum is of elements that are multiplied already. */
static ncclResult_t reduce_inside(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_nccl_real *real = cshim_nccl.real;
    const struct cshim_premul *premul = &call->premul;
    const bool is_scaled = premul->datatype != ncclNumTypes, on_device = premul->factor_at != NULL;
    ncclRedOp_t op = ncclSum;
    ncclResult_t status = ncclSuccess;
    if (is_scaled)
        status = real->RedOpCreatePreMulSum(
            &op, on_device ? (void *)premul->factor_at : (void *)&premul->scalar, premul->datatype,
            on_device ? ncclScalarDevice : ncclScalarHostImmediate, call->comm->inside);
    if (status != ncclSuccess)
        return status;
    if (segment->stage != NULL)
        status = stage_blocks(segment);
    if (status == ncclSuccess)
        status = real->ReduceScatter(segment->stage != NULL ? segment->stage : segment->node_input,
                                     (void *)segment->input, segment->length, call->datatype, op,
                                     call->comm->inside, call->comm->runs_on);
    const ncclResult_t destroyed =
        is_scaled ? real->RedOpDestroy(op, call->comm->inside) : ncclSuccess;
    return status != ncclSuccess ? status : destroyed;
}

/* The sum is multiplied by this at the end. */
static double last_factor(const struct cshim_segment *segment)
{
    return segment->call->op == ncclAvg ? 1.0 / segment->call->comm->ranks : 1.0;
}

/* Random numbers differ between communicators, from rank to rank, from call to call, and between
 * parts and sums. What loses nothing has no options. */
static struct cshim_kernel_options options_of(const struct cshim_segment *segment,
                                              enum cshim_message message)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_residual *residual = call->residual;
    const bool parts = message == CSHIM_MESSAGE_PARTS;
    const uint64_t first = parts ? segment->first : segment->first + segment->rank * segment->chunk;
    const uint64_t which = call->comm->job->policy->seed * CSHIM_GOLDEN +
                           cshim_mix(call->comm->number) + ((uint64_t)call->sequence << 32) +
                           (uint64_t)call->comm->rank * CSHIM_ROW_MESSAGES + message;
    const uint64_t kept = parts ? segment->first : call->plan.count + segment->first_sum;
    if (call->plan.codec == CSHIM_CODEC_RAW || call->plan.codec == CSHIM_CODEC_FP32)
        return (struct cshim_kernel_options){0};
    return (struct cshim_kernel_options){
        .residual = residual != NULL ? (float *)(uintptr_t)residual->memory + kept : NULL,
        .stochastic = call->plan.rule->stochastic,
        .key = cshim_mix(which),
        .first = first,
    };
}

/* Messages between the ranks ------------------------------------------------------------------- */
/* Where the input is cut, this rank's own piece goes to its place among the received ones. */
static ncclResult_t encode(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool is_node_sum = cshim_schedule_has(segment->schedule, CSHIM_STEP_REDUCE_INSIDE);
    struct cshim_kernel_encode parameters = {
        .input = segment->input,
        .input_stride = segment->piece_stride,
        .count = segment->length,
        .chunk = segment->chunk,
        .pieces = segment->pieces,
        .dtype = call->plan.dtype,
        .encoded = segment->sent,
        .stride = segment->stride,
        .own = segment->pieces > 1 ? segment->received + segment->rank * segment->stride : NULL,
        .own_piece = segment->rank,
        .factor = is_node_sum ? 1 : call->premul.factor,
        .factor_at = is_node_sum ? NULL : call->premul.factor_at,
        .options = options_of(segment, CSHIM_MESSAGE_PARTS),
    };
    if (!cshim_call_gives(call))
        return ncclSuccess;
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    return launch(segment, CSHIM_KERNEL_ENCODE, segment->length, &parameters);
}

/* The piece of the input that a peer needs: its own, or the only one. */
static uint32_t piece_for(const struct cshim_segment *segment, uint32_t peer)
{
    return segment->pieces > 1 ? peer : 0;
}

/* NCCL knows better than a plan which way a message to all takes between nodes and inside them. */
static ncclResult_t spread(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    return cshim_nccl.real->Broadcast(segment->sent, segment->sent, message_bytes(segment, 0),
                                      ncclUint8, call->root, segment->comm, call->comm->runs_on);
}

/* Sends each peer the part that it needs, and receives its own; or so with the sums of owners. */
static ncclResult_t exchange(const struct cshim_segment *segment, bool sums)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    const cudaStream_t stream = segment->call->comm->runs_on;
    ncclResult_t status = ncclSuccess;
    for (uint32_t turn = 1; turn < segment->peers && status == ncclSuccess; turn++) {
        const uint32_t peer = (segment->rank + turn) % segment->peers;
        const uint32_t piece = sums ? segment->rank : piece_for(segment, peer);
        const uint64_t sent = message_bytes(segment, piece);
        const uint64_t received =
            message_bytes(segment, sums ? peer : piece_for(segment, segment->rank));
        const uint8_t *from = (sums ? segment->sums : segment->sent) + piece * segment->stride;
        uint8_t *to = sums ? segment->sums + peer * segment->stride
                           : segment->received + peer * segment->stride;
        if (sent > 0)
            status = real->Send(from, sent, ncclUint8, (int)peer, segment->comm, stream);
        if (status == ncclSuccess && received > 0)
            status = real->Recv(to, received, ncclUint8, (int)peer, segment->comm, stream);
    }
    if (segment->call->capture_id == 0 && elements_of(segment, segment->pieces - 1) > 0)
        segment->call->comm->connected[segment->schedule->staged] = true;
    return status;
}

/* Decodes and adds the parts. The sum is encoded for the other ranks, or it is the result. */
static ncclResult_t sum(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool travels = cshim_schedule_has(segment->schedule, CSHIM_STEP_COLLECT);
    const uint64_t elements = elements_of(segment, piece_for(segment, segment->rank));
    struct cshim_kernel_reduce parameters = {
        .parts = segment->received,
        .stride = segment->stride,
        .count = elements,
        .ranks = segment->peers,
        .dtype = call->plan.dtype,
        .output = travels ? NULL : segment->output,
        .reencoded = travels ? segment->sums + segment->rank * segment->stride : NULL,
        .factor = last_factor(segment),
        .fault = segment->call->comm->workspace->fault_device,
    };
    if (elements == 0)
        return ncclSuccess;
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    if (travels)
        parameters.options = options_of(segment, CSHIM_MESSAGE_SUMS);
    set_header(parameters.reencoded_header, segment, CSHIM_MESSAGE_SUMS);
    return launch(segment, CSHIM_KERNEL_REDUCE, elements, &parameters);
}

/* Decodes the sums of all owners. Where nobody adds, the parts of all ranks are the result, or that
 * of the root, which takes its own elements as all others get them. */
static ncclResult_t decode(const struct cshim_segment *segment)
{
    const bool summed = cshim_schedule_has(segment->schedule, CSHIM_STEP_SUM);
    struct cshim_kernel_decode parameters = {
        .encoded = summed ? segment->sums : segment->received,
        .stride = segment->stride,
        .count = summed ? segment->length : segment->result,
        .chunk = segment->chunk,
        .pieces = segment->schedule->root_gives ? 1 : segment->peers,
        .dtype = segment->call->plan.dtype,
        .output = segment->output,
        .output_stride = segment->piece_stride,
        .fault = segment->call->comm->workspace->fault_device,
    };
    set_header(parameters.header, segment, summed ? CSHIM_MESSAGE_SUMS : CSHIM_MESSAGE_PARTS);
    return launch(segment, CSHIM_KERNEL_DECODE, parameters.count, &parameters);
}

/* An all-reduce of the library's own, of narrowed elements ------------------------------------- */
/* Whether the library adds the caller's elements as they are, such as what shares leave over. */
static bool is_native(const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = &segment->call->plan;
    return segment->schedule != plan->schedule || plan->codec == CSHIM_CODEC_RAW;
}

/* Launches one of the kernels that cast, on the whole segment. */
static ncclResult_t cast(const struct cshim_segment *segment, enum cshim_kernel_operation operation)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool widens = operation == CSHIM_KERNEL_WIDEN;
    struct cshim_kernel_cast parameters = {
        .input = widens ? segment->sent : segment->input,
        .output = widens ? segment->output : segment->sent,
        .count = segment->length,
        .dtype = call->plan.dtype,
        .headroom = cshim_cast_headroom(segment->peers),
        .factor = widens ? last_factor(segment) : call->premul.factor,
        .factor_at = widens ? NULL : call->premul.factor_at,
        .largest = segment->largest,
    };
    if (is_native(segment))
        return ncclSuccess;
    return launch(segment, operation, segment->length, &parameters);
}

/* Only fp16 has too small a range for gradients: its elements are scaled by the largest
 * magnitude. */
static ncclResult_t find_largest(const struct cshim_segment *segment)
{
    if (is_native(segment) || segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    const CUresult result = cshim_cuda.MemsetD32Async((CUdeviceptr)(uintptr_t)segment->largest, 0,
                                                      1, segment->call->comm->kernels);
    if (result != CUDA_SUCCESS)
        return cshim_device_check(result, "clearing a word");
    return cast(segment, CSHIM_KERNEL_LARGEST);
}

static ncclResult_t agree_on_largest(const struct cshim_segment *segment)
{
    if (is_native(segment) || segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    return cshim_nccl.real->AllReduce(segment->largest, segment->largest, 1, ncclUint32, ncclMax,
                                      segment->comm, segment->call->comm->runs_on);
}

static ncclResult_t reduce_narrowed(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const enum cshim_codec_id codec = call->plan.codec;
    const ncclDataType_t narrowed = codec == CSHIM_CODEC_FP16   ? ncclFloat16
                                    : codec == CSHIM_CODEC_BF16 ? ncclBfloat16
                                                                : ncclFloat32;
    if (is_native(segment))
        return cshim_nccl.real->AllReduce(segment->input, segment->output, segment->length,
                                          call->datatype, call->op, segment->comm,
                                          call->comm->runs_on);
    return cshim_nccl.real->AllReduce(segment->sent, segment->sent, segment->length, narrowed,
                                      ncclSum, segment->comm, call->comm->runs_on);
}

ncclResult_t cshim_step_enqueue(const struct cshim_segment *segment, enum cshim_step step)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool by_library = segment->schedule->parts_to == CSHIM_TO_LIBRARY;
    if (!cshim_schedule_has(segment->schedule, step))
        return ncclSuccess;
    switch (step) {
    case CSHIM_STEP_REDUCE_INSIDE:
        return reduce_inside(segment);
    case CSHIM_STEP_ENCODE:
        return by_library ? find_largest(segment) : encode(segment);
    case CSHIM_STEP_EXCHANGE:
        if (segment->schedule->root_gives)
            return spread(segment);
        return by_library ? agree_on_largest(segment) : exchange(segment, false);
    case CSHIM_STEP_NARROW:
        return cast(segment, CSHIM_KERNEL_NARROW);
    case CSHIM_STEP_SUM:
        return sum(segment);
    case CSHIM_STEP_COLLECT:
        return by_library ? reduce_narrowed(segment) : exchange(segment, true);
    case CSHIM_STEP_DECODE:
        return by_library ? cast(segment, CSHIM_KERNEL_WIDEN) : decode(segment);
    default:
        return cshim_nccl.real->AllGather(segment->output, segment->node_output, segment->length,
                                          call->datatype, call->comm->inside, call->comm->runs_on);
    }
}
