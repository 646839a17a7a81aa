/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/scalar.h"
#include "shim/nccl/round.h"

static const struct cshim_nccl_comm *comm_of(const struct cshim_segment *segment)
{
    return segment->call->comm;
}

uint64_t cshim_segment_elements(const struct cshim_segment *segment, uint32_t piece)
{
    const uint64_t begin = piece * segment->chunk;
    const uint64_t left = begin < segment->length ? segment->length - begin : 0;
    return left < segment->chunk ? left : segment->chunk;
}

static uint64_t message_bytes(const struct cshim_segment *segment, uint32_t piece)
{
    const struct cshim_plan *plan = &segment->call->plan;
    const uint64_t elements = cshim_segment_elements(segment, piece);
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

static void set_header(uint32_t words[CSHIM_KERNEL_HEADER_WORDS],
                       const struct cshim_segment *segment, enum cshim_message step)
{
    const struct cshim_header header = cshim_header_make(
        &segment->call->plan, segment->call->sequence, segment->index, step, 0, 0);
    memcpy(words, &header, sizeof header);
}

static ncclResult_t launch(const struct cshim_segment *segment,
                           enum cshim_kernel_operation operation, uint64_t count, void *parameters)
{
    const struct cshim_nccl_comm *comm = comm_of(segment);
    const enum cshim_codec_id codec =
        operation == CSHIM_KERNEL_LARGEST ? CSHIM_CODEC_NONE : segment->call->plan.codec;
    const CUresult result =
        cshim_kernel_launch(&comm->cuda, operation, codec, segment->call->stream,
                            cshim_kernel_blocks(operation, count, comm->processors), parameters);
    return cshim_nccl_check(comm, result, "launching a kernel");
}

static bool is_gathered(const struct cshim_segment *segment)
{
    return segment->algorithm == CSHIM_ALGORITHM_ONE_SHOT;
}

static bool is_cast(const struct cshim_segment *segment)
{
    return segment->algorithm == CSHIM_ALGORITHM_CAST;
}

/* What the sum is multiplied by at the end. */
static double last_factor(const struct cshim_segment *segment)
{
    return segment->call->op == ncclAvg ? 1.0 / segment->call->comm->ranks : 1.0;
}

/* Random numbers differ from rank to rank, call to call and step to step. */
static struct cshim_kernel_options options_of(const struct cshim_segment *segment,
                                              enum cshim_message step)
{
    const struct cshim_nccl_call *call = segment->call;
    const struct cshim_residual *residual = call->residual;
    const bool parts = step == CSHIM_MESSAGE_PARTS;
    const uint64_t first = parts ? segment->first : segment->first + segment->rank * segment->chunk;
    const uint64_t which = call->comm->job->policy->seed * CSHIM_GOLDEN +
                           ((uint64_t)call->sequence << 32) +
                           (uint64_t)call->comm->rank * CSHIM_MESSAGES + step;
    CUdeviceptr kept = 0;
    if (residual != NULL)
        kept = parts ? residual->sent + segment->first * sizeof(float)
                     : residual->reduced + segment->first_sum * sizeof(float);
    return (struct cshim_kernel_options){
        .residual = (float *)(uintptr_t)kept,
        .stochastic = call->plan.rule->stochastic,
        .key = cshim_mix(which),
        .first = first,
    };
}

static bool has_options(const struct cshim_segment *segment)
{
    return segment->call->plan.rule->stochastic || segment->call->residual != NULL;
}

/* The largest magnitude of what is to be narrowed, for the algorithm allreduce as fp16. */
static ncclResult_t measure(const struct cshim_segment *segment)
{
    const struct cshim_nccl_comm *comm = comm_of(segment);
    if (segment->call->plan.codec != CSHIM_CODEC_FP16)
        return ncclSuccess;
    struct cshim_kernel_largest parameters = {
        .input = segment->input,
        .count = segment->length,
        .dtype = segment->call->plan.dtype,
        .factor = segment->call->factor,
        .factor_at = segment->call->factor_at,
        .largest = segment->largest,
    };
    const CUresult result = comm->cuda.MemsetD32Async((CUdeviceptr)(uintptr_t)segment->largest, 0,
                                                      1, segment->call->stream);
    if (result != CUDA_SUCCESS)
        return cshim_nccl_check(comm, result, "clearing a word");
    return launch(segment, CSHIM_KERNEL_LARGEST, segment->length, &parameters);
}

ncclResult_t cshim_step_encode(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool gathered = is_gathered(segment);
    if (is_cast(segment))
        return measure(segment);
    struct cshim_kernel_encode parameters = {
        .input = segment->input,
        .input_stride = segment->input_stride,
        .count = segment->length,
        .chunk = segment->chunk,
        .pieces = gathered ? 1 : segment->peers,
        .dtype = call->plan.dtype,
        .encoded = gathered ? segment->gathered + segment->rank * segment->stride : segment->sent,
        .stride = segment->stride,
        .own = gathered ? NULL : segment->received + segment->rank * segment->stride,
        .own_piece = segment->rank,
        .factor = call->factor,
        .factor_at = call->factor_at,
        .options = options_of(segment, CSHIM_MESSAGE_PARTS),
    };
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    return launch(segment, has_options(segment) ? CSHIM_KERNEL_ENCODE_OPTIONS : CSHIM_KERNEL_ENCODE,
                  segment->length, &parameters);
}

static ncclResult_t swap_with(const struct cshim_segment *segment, uint32_t peer,
                              const uint8_t *sent, uint64_t sent_bytes, uint8_t *received,
                              uint64_t received_bytes)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    const cudaStream_t stream = segment->call->stream;
    ncclResult_t status = ncclSuccess;
    if (sent_bytes > 0)
        status = real->Send(sent, sent_bytes, ncclUint8, (int)peer, segment->comm, stream);
    if (status == ncclSuccess && received_bytes > 0)
        status = real->Recv(received, received_bytes, ncclUint8, (int)peer, segment->comm, stream);
    return status;
}

ncclResult_t cshim_step_exchange(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const uint32_t rank = segment->rank;
    ncclResult_t status = ncclSuccess;
    if (is_cast(segment)) {
        if (call->plan.codec != CSHIM_CODEC_FP16)
            return ncclSuccess;
        return cshim_nccl.real->AllReduce(segment->largest, segment->largest, 1, ncclUint32,
                                          ncclMax, segment->comm, call->stream);
    }
    for (uint32_t step = 1; step < segment->peers && status == ncclSuccess; step++) {
        const uint32_t peer = (rank + step) % segment->peers;
        if (is_gathered(segment))
            status =
                swap_with(segment, peer, segment->gathered + rank * segment->stride,
                          message_bytes(segment, 0), segment->gathered + peer * segment->stride,
                          message_bytes(segment, 0));
        else
            status = swap_with(
                segment, peer, segment->sent + peer * segment->stride, message_bytes(segment, peer),
                segment->received + peer * segment->stride, message_bytes(segment, rank));
    }
    return status;
}

/* 2^headroom times what is below the top code leaves room for the sum of all ranks, and for the
 * rounding at each hop. */
static uint32_t headroom(uint32_t ranks)
{
    uint32_t bits = 1;
    while (bits < 31 && 1u << (bits - 1) < ranks)
        bits++;
    return bits;
}

static ncclResult_t cast(const struct cshim_segment *segment, bool narrow)
{
    const struct cshim_nccl_call *call = segment->call;
    if (call->plan.codec == CSHIM_CODEC_RAW)
        return ncclSuccess;
    struct cshim_kernel_cast parameters = {
        .input = narrow ? segment->input : segment->sent,
        .output = narrow ? segment->sent : segment->output,
        .count = segment->length,
        .dtype = call->plan.dtype,
        .headroom = headroom(segment->peers),
        .factor = narrow ? call->factor : last_factor(segment),
        .factor_at = narrow ? call->factor_at : NULL,
        .largest = segment->largest,
    };
    return launch(segment, narrow ? CSHIM_KERNEL_NARROW : CSHIM_KERNEL_WIDEN, segment->length,
                  &parameters);
}

static ncclResult_t reduce(const struct cshim_segment *segment, uint64_t elements,
                           const uint8_t *parts, uint8_t *output, uint8_t *reencoded)
{
    const struct cshim_nccl_call *call = segment->call;
    const bool plain = reencoded == NULL || !has_options(segment);
    struct cshim_kernel_reduce parameters = {
        .parts = parts,
        .stride = segment->stride,
        .count = elements,
        .ranks = segment->peers,
        .dtype = call->plan.dtype,
        .output = output,
        .reencoded = reencoded,
        .factor = last_factor(segment),
        .fault = (uint32_t *)(uintptr_t)call->comm->workspace->fault_device,
        .options = options_of(segment, CSHIM_MESSAGE_SUMS),
    };
    enum cshim_kernel_operation operation =
        plain ? CSHIM_KERNEL_REDUCE : CSHIM_KERNEL_REDUCE_OPTIONS;
    if (call->plan.dtype == CSHIM_FLOAT64)
        operation = CSHIM_KERNEL_REDUCE_DOUBLE;
    if (elements == 0)
        return ncclSuccess;
    set_header(parameters.header, segment, CSHIM_MESSAGE_PARTS);
    set_header(parameters.reencoded_header, segment, CSHIM_MESSAGE_SUMS);
    return launch(segment, operation, elements, &parameters);
}

ncclResult_t cshim_step_sum(const struct cshim_segment *segment)
{
    const uint64_t own = cshim_segment_elements(segment, segment->rank);
    if (is_cast(segment))
        return cast(segment, true);
    if (segment->call->collective == CSHIM_ALLGATHER)
        return ncclSuccess;
    if (is_gathered(segment))
        return reduce(segment, segment->length, segment->gathered, segment->output, NULL);
    if (segment->call->collective == CSHIM_REDUCE_SCATTER)
        return reduce(segment, own, segment->received, segment->output, NULL);
    return reduce(segment, own, segment->received, NULL,
                  segment->gathered + segment->rank * segment->stride);
}

ncclResult_t cshim_step_collect(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    const uint32_t rank = segment->rank;
    ncclResult_t status = ncclSuccess;
    if (is_cast(segment) && call->plan.codec == CSHIM_CODEC_RAW)
        return cshim_nccl.real->AllReduce(segment->input, segment->output, segment->length,
                                          call->datatype, call->op, segment->comm, call->stream);
    if (is_cast(segment)) {
        const ncclDataType_t narrow = call->plan.codec == CSHIM_CODEC_FP16   ? ncclFloat16
                                      : call->plan.codec == CSHIM_CODEC_BF16 ? ncclBfloat16
                                                                             : ncclFloat32;
        return cshim_nccl.real->AllReduce(segment->sent, segment->sent, segment->length, narrow,
                                          ncclSum, segment->comm, call->stream);
    }
    if (is_gathered(segment) || call->collective == CSHIM_REDUCE_SCATTER)
        return ncclSuccess;
    for (uint32_t step = 1; step < segment->peers && status == ncclSuccess; step++) {
        const uint32_t peer = (rank + step) % segment->peers;
        status = swap_with(segment, peer, segment->gathered + rank * segment->stride,
                           message_bytes(segment, rank), segment->gathered + peer * segment->stride,
                           message_bytes(segment, peer));
    }
    return status;
}

ncclResult_t cshim_step_decode(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    if (is_cast(segment))
        return cast(segment, false);
    const bool blocks = call->collective == CSHIM_ALLGATHER;
    if ((is_gathered(segment) && !blocks) || call->collective == CSHIM_REDUCE_SCATTER)
        return ncclSuccess;
    struct cshim_kernel_decode parameters = {
        .encoded = segment->gathered,
        .stride = segment->stride,
        .count = blocks ? segment->length * segment->peers : segment->length,
        .chunk = segment->chunk,
        .pieces = segment->peers,
        .dtype = call->plan.dtype,
        .output = segment->output,
        .output_stride = blocks ? call->count : segment->chunk,
        .fault = (uint32_t *)(uintptr_t)call->comm->workspace->fault_device,
    };
    set_header(parameters.header, segment, blocks ? CSHIM_MESSAGE_PARTS : CSHIM_MESSAGE_SUMS);
    return launch(segment, CSHIM_KERNEL_DECODE, parameters.count, &parameters);
}

/* Inside a node NCCL itself adds, in the caller's type, and gathers. */
ncclResult_t cshim_step_reduce_inside(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    if (segment->algorithm != CSHIM_ALGORITHM_HIERARCHICAL || segment->length == 0)
        return ncclSuccess;
    return cshim_nccl.real->ReduceScatter(segment->node_input, (void *)segment->input,
                                          segment->length, call->datatype, ncclSum,
                                          call->comm->inside, call->stream);
}

ncclResult_t cshim_step_gather_inside(const struct cshim_segment *segment)
{
    const struct cshim_nccl_call *call = segment->call;
    if (segment->algorithm != CSHIM_ALGORITHM_HIERARCHICAL || segment->length == 0)
        return ncclSuccess;
    return cshim_nccl.real->AllGather(segment->output, segment->node_output, segment->length,
                                      call->datatype, call->comm->inside, call->stream);
}
