/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/steps.h"

#include "codecs/scalar.h"
#include "shim/core/header.h"
#include "shim/nccl/device.h"
#include "shim/nccl/workspace.h"

/* Returns the first operation of a kind that concerns a type of message; NULL if there is none. */
static const struct cshim_operation *find_operation(const struct cshim_nccl_segment *segment,
                                                    enum cshim_operation_kind kind,
                                                    enum cshim_message message)
{
    for (unsigned i = 0; i < segment->operations.count; i++) {
        const struct cshim_operation *operation = &segment->operations.list[i];
        if (operation->kind == kind && operation->message == message)
            return operation;
    }
    return NULL;
}

static uint64_t message_bytes(const struct cshim_nccl_segment *segment, uint64_t elements)
{
    const struct cshim_plan *plan = &segment->call->plan;
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

/* Copies this segment's chunk of all blocks to the stage, in the order of NCCL's reduce-scatter. */
static ncclResult_t stage_blocks(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const uint64_t element = cshim_dtype_bytes(call->plan.dtype);
    const uint64_t bytes = segment->piece_stride * element;
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)cshim_segment_stage(segment);
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < call->comm->ranks && result == CUDA_SUCCESS; i++, to += bytes) {
        const uint64_t block = (uint64_t)call->comm->layout.rank_at[i] * call->count;
        result = cshim_cuda.MemcpyAsync(
            to, (CUdeviceptr)(uintptr_t)segment->node_input + block * element, bytes,
            call->comm->runs_on);
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
    const bool has_blocks = call->plan.schedule->division == CSHIM_BLOCKS;
    if (has_blocks)
        status = stage_blocks(segment);
    if (status == ncclSuccess)
        status = real->ReduceScatter(
            has_blocks ? cshim_segment_stage(segment) : segment->node_input, (void *)segment->input,
            segment->length, call->datatype, op, call->comm->inside, call->comm->runs_on);
    const ncclResult_t destroyed =
        is_scaled ? real->RedOpDestroy(op, call->comm->inside) : ncclSuccess;
    return status != ncclSuccess ? status : destroyed;
}

/* Returns the factor by which the final sum is multiplied: for ncclAvg it makes an average. */
static double result_factor(const struct cshim_nccl_segment *segment)
{
    return segment->call->plan.op == CSHIM_AVG ? 1.0 / segment->call->comm->ranks : 1.0;
}

/* Returns residuals and random key for the messages of a type that this rank encodes; `begin` is
 * the index of the messages' first element in the segment. The codecs raw and fp32 have no
 * options. */
static struct cshim_kernel_options options_of(const struct cshim_nccl_segment *segment,
                                              enum cshim_message message, uint64_t begin)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_nccl_comm *comm = call->comm;
    const struct cshim_plan *plan = &call->plan;
    const struct cshim_residual *residual = call->residual;
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    const uint64_t offset = message == CSHIM_MESSAGE_PARTS
                                ? segment->first
                                : plan->count + segment->number * chunk; /* a chunk per segment */
    if (plan->codec == CSHIM_CODEC_RAW || plan->codec == CSHIM_CODEC_FP32)
        return (struct cshim_kernel_options){0};
    return (struct cshim_kernel_options){
        .residual = residual != NULL ? (float *)(uintptr_t)residual->memory + offset : NULL,
        .stochastic = plan->rule->stochastic,
        .key = cshim_message_key(comm->job->policy->seed, comm->number, (uint32_t)comm->rank,
                                 call->sequence, message),
        .first = segment->first + begin,
    };
}

/* Messages between the ranks ------------------------------------------------------------------- */
/* Adds a message to those that a kernel encodes. If the input is cut into pieces, the message of
 * this rank to itself lies apart, where a receive from itself would put it. */
static void add_piece(struct cshim_kernel_encode *parameters,
                      const struct cshim_nccl_segment *segment,
                      const struct cshim_operation *message)
{
    uint8_t *place = segment->memory + message->offset;
    if (message->elements > parameters->chunk)
        parameters->chunk = message->elements;
    parameters->pieces++;
    if ((message->options & CSHIM_FOR_ALL) != 0)
        parameters->encoded = place;
    else if (message->peer == (uint32_t)segment->call->role.peer)
        parameters->own = place;
    else
        parameters->encoded = place - message->index * parameters->stride;
}

/* Encodes this rank's contributions. */
static ncclResult_t encode_parts(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool is_node_sum = call->plan.schedule->staged;
    struct cshim_kernel_encode parameters = {
        .input = segment->input,
        .count = segment->length,
        .dtype = call->plan.dtype,
        .encoded = segment->memory,
        .stride = call->plan.piece_bytes,
        .own_piece = (uint32_t)call->role.peer,
        .factor = is_node_sum ? 1 : call->premul.factor,
        .factor_at = is_node_sum ? NULL : call->premul.factor_at,
        .options = options_of(segment, CSHIM_MESSAGE_PARTS, 0),
    };
    for (unsigned i = 0; i < segment->operations.count; i++) {
        const struct cshim_operation *message = &segment->operations.list[i];
        if (message->kind == CSHIM_OPERATION_MESSAGE && message->message == CSHIM_MESSAGE_PARTS)
            add_piece(&parameters, segment, message);
    }
    parameters.input_stride = segment->piece_stride != 0 ? segment->piece_stride : parameters.chunk;
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    return launch(segment, CSHIM_KERNEL_ENCODE, segment->length, &parameters);
}

/* Broadcasts the root's message by NCCL, which chooses the inter-node and intra-node routes. */
static ncclResult_t broadcast_message(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    return cshim_nccl.real->Broadcast(segment->memory, segment->memory,
                                      message_bytes(segment, segment->length), ncclUint8,
                                      call->root, call->comm->comm, call->comm->runs_on);
}

/* Sends and receives the messages of a type. */
static ncclResult_t exchange_messages(const struct cshim_nccl_segment *segment,
                                      enum cshim_message type)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    struct cshim_nccl_comm *comm = segment->call->comm;
    const struct cshim_plan *plan = &segment->call->plan;
    const ncclComm_t peers = plan->schedule->staged ? comm->across : comm->comm;
    uint64_t elements = 0; /* number of elements of the message that the next SEND sends */
    uint32_t sent = 0, received = 0;
    ncclResult_t status = ncclSuccess;
    for (unsigned i = 0; i < segment->operations.count && status == ncclSuccess; i++) {
        const struct cshim_operation *operation = &segment->operations.list[i];
        uint8_t *place = segment->memory + operation->offset;
        if (operation->message != type)
            continue;
        if (operation->kind == CSHIM_OPERATION_MESSAGE) {
            elements = operation->elements;
        } else if (operation->kind == CSHIM_OPERATION_SEND) {
            status = real->Send(place, message_bytes(segment, elements), ncclUint8,
                                (int)operation->peer, peers, comm->runs_on);
            sent++;
        } else if (operation->kind == CSHIM_OPERATION_RECEIVE) {
            status = real->Recv(place, message_bytes(segment, operation->elements), ncclUint8,
                                (int)operation->peer, peers, comm->runs_on);
            received++;
        }
    }
    /* If no chunk is empty, every rank exchanges messages with all peers, so NCCL connects all of
     * them; otherwise no rank sends to and receives from all peers. */
    if (segment->call->capture_id == 0 && sent == plan->peers - 1 && received == sent)
        comm->connected[plan->schedule->staged] = true;
    return status;
}

/* Decodes and adds the contributions. Encodes the sum if it is sent to other ranks; otherwise
 * writes it to the output. */
static ncclResult_t sum_parts(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_operation *message =
        find_operation(segment, CSHIM_OPERATION_MESSAGE, CSHIM_MESSAGE_SUMS);
    const struct cshim_operation *reduce =
        find_operation(segment, CSHIM_OPERATION_REDUCE,
                       message != NULL ? CSHIM_MESSAGE_SUMS : CSHIM_MESSAGE_PARTS);
    struct cshim_kernel_reduce parameters = {
        .parts = segment->memory +
                 find_operation(segment, CSHIM_OPERATION_READ, CSHIM_MESSAGE_PARTS)->offset,
        .stride = call->plan.piece_bytes,
        .count = reduce->elements,
        .ranks = reduce->parts,
        .dtype = call->plan.dtype,
        .output = message == NULL ? segment->output : NULL,
        .reencoded = message != NULL ? segment->memory + message->offset : NULL,
        .factor = result_factor(segment),
        .fault = call->comm->workspace->fault_device,
    };
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    if (message != NULL)
        parameters.options = options_of(segment, CSHIM_MESSAGE_SUMS, reduce->begin);
    set_header(parameters.reencoded_header, segment, CSHIM_MESSAGE_SUMS);
    return launch(segment, CSHIM_KERNEL_REDUCE, reduce->elements, &parameters);
}

/* Decodes the reduced chunks of all owners; without a reduction the contributions of all ranks, or
 * that of the root. The root decodes its own message, too, so that all ranks get the same bits. */
static ncclResult_t decode_result(const struct cshim_nccl_segment *segment)
{
    const struct cshim_plan *plan = &segment->call->plan;
    const enum cshim_message type =
        find_operation(segment, CSHIM_OPERATION_DECODE, CSHIM_MESSAGE_SUMS) != NULL
            ? CSHIM_MESSAGE_SUMS
            : CSHIM_MESSAGE_PARTS;
    const uint64_t chunk = find_operation(segment, CSHIM_OPERATION_DECODE, type)->elements;
    struct cshim_kernel_decode parameters = {
        .encoded = segment->memory + find_operation(segment, CSHIM_OPERATION_READ, type)->offset,
        .stride = plan->piece_bytes,
        .count = plan->schedule->division == CSHIM_BLOCKS ? segment->result : segment->length,
        .chunk = chunk,
        .pieces = plan->schedule->division == CSHIM_WHOLE ? 1 : plan->peers,
        .dtype = plan->dtype,
        .output = segment->output,
        .output_stride = segment->piece_stride != 0 ? segment->piece_stride : chunk,
        .fault = segment->call->comm->workspace->fault_device,
    };
    set_header(parameters.header, segment, type);
    return launch(segment, CSHIM_KERNEL_DECODE, parameters.count, &parameters);
}

/* cast: NCCL's all-reduce of downcast elements ------------------------------------------------- */
/* Returns the address of the downcast elements, which follow the word for the largest magnitude. */
static uint8_t *cast_codes(const struct cshim_nccl_segment *segment)
{
    return segment->memory + CSHIM_WIRE_ALIGN;
}

/* Launches a kernel of the algorithm cast (NARROW, WIDEN or LARGEST) on the whole segment. */
static ncclResult_t cast_elements(const struct cshim_nccl_segment *segment,
                                  enum cshim_kernel_operation operation)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool widens = operation == CSHIM_KERNEL_WIDEN;
    struct cshim_kernel_cast parameters = {
        .input = widens ? cast_codes(segment) : segment->input,
        .output = widens ? segment->output : cast_codes(segment),
        .count = segment->length,
        .dtype = call->plan.dtype,
        .headroom = cshim_cast_headroom(call->plan.ranks),
        .factor = widens ? result_factor(segment) : call->premul.factor,
        .factor_at = widens ? NULL : call->premul.factor_at,
        .largest = (uint32_t *)(uintptr_t)segment->memory,
    };
    return launch(segment, operation, segment->length, &parameters);
}

/* Computes the largest magnitude of this rank's elements; fp16 is scaled by the largest one of all
 * ranks. Does nothing for cast's other codecs, whose range suffices for gradients. */
static ncclResult_t find_largest(const struct cshim_nccl_segment *segment)
{
    if (segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    const CUresult result = cshim_cuda.MemsetD32Async((CUdeviceptr)(uintptr_t)segment->memory, 0, 1,
                                                      segment->call->comm->kernels);
    if (result != CUDA_SUCCESS)
        return cshim_device_check(result, "clearing a word");
    return cast_elements(segment, CSHIM_KERNEL_LARGEST);
}

/* All-reduces the largest magnitude over all ranks; does nothing unless the codec is fp16. */
static ncclResult_t reduce_largest(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_comm *comm = segment->call->comm;
    if (segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    return cshim_nccl.real->AllReduce(segment->memory, segment->memory, 1, ncclUint32, ncclMax,
                                      comm->comm, comm->runs_on);
}

/* All-reduces the downcast elements or, if the codec is raw or the segment lies beyond the equal
 * shares of hierarchical, the caller's elements. */
static ncclResult_t reduce_cast(const struct cshim_nccl_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_nccl_comm *comm = call->comm;
    const enum cshim_dtype dtype = cshim_cast_dtype(call->plan.codec);
    if (segment->is_rest || call->plan.codec == CSHIM_CODEC_RAW)
        return cshim_nccl.real->AllReduce(segment->input, segment->output, segment->length,
                                          call->datatype, call->op, comm->comm, comm->runs_on);
    return cshim_nccl.real->AllReduce(cast_codes(segment), cast_codes(segment), segment->length,
                                      dtype == CSHIM_FLOAT16    ? ncclFloat16
                                      : dtype == CSHIM_BFLOAT16 ? ncclBfloat16
                                                                : ncclFloat32,
                                      ncclSum, comm->comm, comm->runs_on);
}

ncclResult_t cshim_step_enqueue(const struct cshim_nccl_segment *segment, enum cshim_step step)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool by_library = segment->operations.count == 0;
    if ((segment->steps >> step & 1) == 0)
        return ncclSuccess;
    switch (step) {
    case CSHIM_STEP_REDUCE_INSIDE:
        return reduce_inside(segment);
    case CSHIM_STEP_ENCODE:
        return by_library ? find_largest(segment) : encode_parts(segment);
    case CSHIM_STEP_EXCHANGE:
        if (call->collective == CSHIM_BROADCAST)
            return broadcast_message(segment);
        return by_library ? reduce_largest(segment)
                          : exchange_messages(segment, CSHIM_MESSAGE_PARTS);
    case CSHIM_STEP_NARROW:
        return cast_elements(segment, CSHIM_KERNEL_NARROW);
    case CSHIM_STEP_SUM:
        return sum_parts(segment);
    case CSHIM_STEP_COLLECT:
        return by_library ? reduce_cast(segment) : exchange_messages(segment, CSHIM_MESSAGE_SUMS);
    case CSHIM_STEP_DECODE:
        return by_library ? cast_elements(segment, CSHIM_KERNEL_WIDEN) : decode_result(segment);
    default:
        return cshim_nccl.real->AllGather(segment->output, segment->node_output, segment->length,
                                          call->datatype, call->comm->inside, call->comm->runs_on);
    }
}
