/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueues the steps of a segment's schedule: kernels and NCCL's operations. */
#include "codecs/scalar.h"
#include "shim/core/header.h"
#include "shim/nccl/segment.h"

/* Returns the number of elements of a piece of the input, which may be 0. */
static uint64_t elements_of(const struct cshim_nccl_segment *segment, uint32_t piece)
{
    const uint64_t begin = piece * segment->chunk;
    const uint64_t left = begin < segment->length ? segment->length - begin : 0;
    return left < segment->chunk ? left : segment->chunk;
}

static uint64_t message_bytes(const struct cshim_nccl_segment *segment, uint32_t piece)
{
    const struct cshim_plan *plan = &segment->call->plan;
    const uint64_t elements = elements_of(segment, piece);
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

static void set_header(uint32_t words[CSHIM_KERNEL_HEADER_WORDS],
                       const struct cshim_nccl_segment *segment, enum cshim_message message)
{
    const struct cshim_header header = cshim_header_make(
        &segment->call->plan, segment->call->sequence, segment->number, message, 0, 0);
    memcpy(words, &header, sizeof header);
}

static ncclResult_t launch(const struct cshim_nccl_segment *segment,
                           enum cshim_kernel_operation operation, uint64_t count, void *parameters)
{
    const struct cshim_nccl_comm *comm = segment->call->comm;
    const CUresult result = cshim_kernel_launch(
        operation, segment->call->plan.codec, segment->call->comm->kernels,
        cshim_kernel_blocks(operation, count, (uint32_t)comm->processors), parameters);
    return cshim_device_check(result, "launching a kernel");
}

/* Copies this segment's chunk of all blocks to `stage`, in the order of NCCL's reduce-scatter. */
static ncclResult_t stage_blocks(const struct cshim_nccl_segment *segment)
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

/* Adds the inputs of the node's ranks by NCCL's reduce-scatter. A PreMulSum operation belongs to
 * one communicator, so an equal one is made for `inside`; later steps do not multiply again. */
static ncclResult_t reduce_inside(const struct cshim_nccl_segment *segment)
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

/* Returns the factor of the final sum. */
static double result_factor(const struct cshim_nccl_segment *segment)
{
    return segment->call->op == ncclAvg ? 1.0 / segment->call->comm->ranks : 1.0;
}

/* Returns residuals and random key of the messages that this rank encodes. The key differs between
 * communicators, ranks, calls, and contributions and sums. Codecs that do not round have no
 * options. */
static struct cshim_kernel_options options_of(const struct cshim_nccl_segment *segment,
                                              enum cshim_message message)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_nccl_residual *residual = call->residual;
    const bool parts = message == CSHIM_MESSAGE_PARTS;
    const uint64_t first = parts ? segment->first : segment->first + segment->rank * segment->chunk;
    const uint64_t which = call->comm->job->policy->seed * CSHIM_GOLDEN +
                           cshim_mix(call->comm->number) + ((uint64_t)call->sequence << 32) +
                           (uint64_t)call->comm->rank * CSHIM_ROW_MESSAGES + message;
    const uint64_t offset = parts ? segment->first : call->plan.count + segment->first_sum;
    if (call->plan.codec == CSHIM_CODEC_RAW || call->plan.codec == CSHIM_CODEC_FP32)
        return (struct cshim_kernel_options){0};
    return (struct cshim_kernel_options){
        .residual = residual != NULL ? (float *)(uintptr_t)residual->memory + offset : NULL,
        .stochastic = call->plan.rule->stochastic,
        .key = cshim_mix(which),
        .first = first,
    };
}

/* Messages between the ranks ------------------------------------------------------------------- */
/* Encodes this rank's contributions. If the input is cut into pieces, this rank's own piece goes to
 * `received`, as if this rank had sent it to itself. */
static ncclResult_t encode_parts(const struct cshim_nccl_segment *segment)
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

/* Returns the index of the piece of the input that a peer receives. */
static uint32_t piece_for(const struct cshim_nccl_segment *segment, uint32_t peer)
{
    return segment->pieces > 1 ? peer : 0;
}

/* Broadcasts the root's message by NCCL, which knows the best routes inter-node and intra-node. */
static ncclResult_t broadcast_message(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    return cshim_nccl.real->Broadcast(segment->sent, segment->sent, message_bytes(segment, 0),
                                      ncclUint8, call->root, segment->comm, call->comm->runs_on);
}

/* Sends each peer the contribution that it needs, and receives those of all peers; or, if `sums` is
 * true, sends this owner's reduced chunk to all peers and receives theirs. */
static ncclResult_t exchange_messages(const struct cshim_nccl_segment *segment, bool sums)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    const cudaStream_t stream = segment->call->comm->runs_on;
    ncclResult_t status = ncclSuccess;
    for (uint32_t distance = 1; distance < segment->peers && status == ncclSuccess; distance++) {
        const uint32_t peer = (segment->rank + distance) % segment->peers;
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

/* Decodes and adds the contributions. Encodes the sum if it is sent to other ranks; otherwise
 * writes it to the output. */
static ncclResult_t sum_parts(const struct cshim_nccl_segment *segment)
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
        .factor = result_factor(segment),
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

/* Decodes the reduced chunks of all owners; without a reduction the contributions of all ranks, or
 * that of the root. The root decodes its own message, too, so that all ranks get the same bits. */
static ncclResult_t decode_result(const struct cshim_nccl_segment *segment)
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

/* cast: NCCL's all-reduce of downcast elements ------------------------------------------------- */
/* Returns true if NCCL adds the caller's elements unconverted: with codec raw, and the remainder of
 * the shares of hierarchical. */
static bool is_native(const struct cshim_nccl_segment *segment)
{
    const struct cshim_plan *plan = &segment->call->plan;
    return segment->schedule != plan->schedule || plan->codec == CSHIM_CODEC_RAW;
}

/* Launches a conversion kernel on the whole segment. */
static ncclResult_t cast_elements(const struct cshim_nccl_segment *segment,
                                  enum cshim_kernel_operation operation)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool widens = operation == CSHIM_KERNEL_WIDEN;
    struct cshim_kernel_cast parameters = {
        .input = widens ? segment->sent : segment->input,
        .output = widens ? segment->output : segment->sent,
        .count = segment->length,
        .dtype = call->plan.dtype,
        .headroom = cshim_cast_headroom(segment->peers),
        .factor = widens ? result_factor(segment) : call->premul.factor,
        .factor_at = widens ? NULL : call->premul.factor_at,
        .largest = segment->largest,
    };
    if (is_native(segment))
        return ncclSuccess;
    return launch(segment, operation, segment->length, &parameters);
}

/* Computes the largest magnitude of this rank's elements, by which fp16 is scaled; the range of the
 * other types suffices for gradients. */
static ncclResult_t find_largest(const struct cshim_nccl_segment *segment)
{
    if (is_native(segment) || segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    const CUresult result = cshim_cuda.MemsetD32Async((CUdeviceptr)(uintptr_t)segment->largest, 0,
                                                      1, segment->call->comm->kernels);
    if (result != CUDA_SUCCESS)
        return cshim_device_check(result, "clearing a word");
    return cast_elements(segment, CSHIM_KERNEL_LARGEST);
}

/* All-reduces the largest magnitude of all ranks. */
static ncclResult_t reduce_largest(const struct cshim_nccl_segment *segment)
{
    if (is_native(segment) || segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    return cshim_nccl.real->AllReduce(segment->largest, segment->largest, 1, ncclUint32, ncclMax,
                                      segment->comm, segment->call->comm->runs_on);
}

static ncclResult_t reduce_cast(const struct cshim_nccl_segment *segment)
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

ncclResult_t cshim_step_enqueue(const struct cshim_nccl_segment *segment, enum cshim_step step)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool by_library = segment->schedule->parts_to == CSHIM_TO_LIBRARY;
    if (!cshim_schedule_has(segment->schedule, step))
        return ncclSuccess;
    switch (step) {
    case CSHIM_STEP_REDUCE_INSIDE:
        return reduce_inside(segment);
    case CSHIM_STEP_ENCODE:
        return by_library ? find_largest(segment) : encode_parts(segment);
    case CSHIM_STEP_EXCHANGE:
        if (segment->schedule->root_gives)
            return broadcast_message(segment);
        return by_library ? reduce_largest(segment) : exchange_messages(segment, false);
    case CSHIM_STEP_NARROW:
        return cast_elements(segment, CSHIM_KERNEL_NARROW);
    case CSHIM_STEP_SUM:
        return sum_parts(segment);
    case CSHIM_STEP_COLLECT:
        return by_library ? reduce_cast(segment) : exchange_messages(segment, true);
    case CSHIM_STEP_DECODE:
        return by_library ? cast_elements(segment, CSHIM_KERNEL_WIDEN) : decode_result(segment);
    default:
        return cshim_nccl.real->AllGather(segment->output, segment->node_output, segment->length,
                                          call->datatype, call->comm->inside, call->comm->runs_on);
    }
}
