/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives that the front exports: what the program asks for, in the planner's words. */
#include "shim/nccl/internal.h"

static enum cshim_dtype dtype_of(ncclDataType_t datatype)
{
    switch (datatype) {
    case ncclFloat32:
        return CSHIM_FLOAT32;
    case ncclFloat64:
        return CSHIM_FLOAT64;
    case ncclFloat16:
        return CSHIM_FLOAT16;
    case ncclBfloat16:
        return CSHIM_BFLOAT16;
    default:
        return CSHIM_DTYPE_OTHER;
    }
}

/* Sums whose elements are multiplied first are sums. */
static enum cshim_op op_of(const struct cshim_nccl_call *call)
{
    struct cshim_premul premul;
    if (call->op == ncclSum)
        return CSHIM_SUM;
    if (call->op == ncclAvg)
        return CSHIM_AVG;
    if (call->op >= ncclNumOps && cshim_premul_find(call->op, call->comm->comm, &premul) &&
        premul.datatype == call->datatype)
        return CSHIM_SUM;
    return CSHIM_OP_OTHER;
}

uint64_t cshim_nccl_elements(const struct cshim_nccl_call *call)
{
    const uint64_t ranks = (uint64_t)call->comm->ranks;
    return call->collective == CSHIM_ALLREDUCE ? call->count : call->count * ranks;
}

struct cshim_call cshim_nccl_facts(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const enum cshim_dtype dtype = dtype_of(call->datatype);
    /* NCCL's operation with a factor belongs to the communicator, not to that of a node. */
    const bool levels = call->op < ncclNumOps &&
                        cshim_schedule_of(call->collective, CSHIM_ALGORITHM_HIERARCHICAL) != NULL;
    return (struct cshim_call){
        .library = CSHIM_NCCL,
        .collective = call->collective,
        .dtype = dtype,
        .op = op_of(call),
        .bytes = cshim_nccl_elements(call) * cshim_dtype_bytes(dtype),
        .ranks = (uint32_t)comm->ranks,
        .nodes = comm->nodes,
        .ranks_per_node = levels && comm->inside != NULL ? comm->ranks_per_node : 0,
    };
}

/* Looks whether the call is captured into a graph. It can be compressed then if its communicator
 * has everything: nothing may be made or waited for meanwhile. NCCL has all ranks capture alike. */
static enum cshim_reason look_for_capture(struct cshim_nccl_call *call)
{
    char why[CSHIM_CUDA_WHY_MAX];
    CUstreamCaptureStatus status;
    struct cshim_cuda opened;
    const struct cshim_cuda *cuda = &call->comm->cuda;
    if (!call->comm->prepared) {
        if (!cshim_cuda_open(&opened, why, sizeof why))
            return CSHIM_REASON_NOT_AGREED;
        cuda = &opened;
    }
    if (cuda->StreamGetCaptureInfo(call->stream, &status, &call->capture_id, &call->graph, NULL,
                                   NULL) != CUDA_SUCCESS)
        return CSHIM_REASON_CAPTURED;
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) {
        call->capture_id = 0;
        return CSHIM_REASON_COMPRESS;
    }
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !call->comm->prepared ||
        cuda->UserObjectCreate == NULL || cuda->GraphRetainUserObject == NULL)
        return CSHIM_REASON_CAPTURED;
    return CSHIM_REASON_COMPRESS;
}

/* Why a call goes to NCCL as it is, as far as that can be known before the communicator is
 * prepared. The arguments that NCCL would refuse are its to refuse. */
static enum cshim_reason reason_of(struct cshim_nccl_call *call)
{
    const struct cshim_rule *rule;
    if (call->comm->reason != CSHIM_REASON_COMPRESS || call->comm->job == NULL)
        return call->comm->reason;
    const struct cshim_call facts = cshim_nccl_facts(call);
    const enum cshim_reason reason =
        cshim_plan_reason(call->comm->job->policy, &facts, cshim_nccl_elements(call), &rule);
    if (reason != CSHIM_REASON_COMPRESS)
        return reason;
    if (call->send == NULL || call->receive == NULL)
        return CSHIM_REASON_DISABLED;
    return look_for_capture(call);
}

void cshim_nccl_count_pass(const struct cshim_nccl_comm *comm, enum cshim_reason reason)
{
    if (comm->counted == NULL)
        return;
    cshim_ledger_pass(&comm->counted->ledger, reason);
    comm->counted->due = true;
}

ncclResult_t cshim_nccl_natively(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    const ncclComm_t comm = call->handle;
    if (call->collective == CSHIM_ALLREDUCE)
        return real->AllReduce(call->send, call->receive, call->count, call->datatype, call->op,
                               comm, call->stream);
    if (call->collective == CSHIM_ALLGATHER)
        return real->AllGather(call->send, call->receive, call->count, call->datatype, comm,
                               call->stream);
    return real->ReduceScatter(call->send, call->receive, call->count, call->datatype, call->op,
                               comm, call->stream);
}

/* COMPSHIM=observe: written down by rank 0. */
static void observe(const struct cshim_nccl_call *call)
{
    const struct cshim_call facts = cshim_nccl_facts(call);
    const struct cshim_kind kind = {
        .collective = (uint8_t)facts.collective,
        .dtype = (uint8_t)facts.dtype,
        .op = (uint8_t)facts.op,
        .ranks = facts.ranks,
        .nodes = facts.nodes,
        .ranks_per_node = facts.ranks_per_node,
        .bytes = facts.bytes,
        .calls = 1,
        .bytes_total = facts.bytes,
    };
    if (call->comm->rank != 0)
        return;
    cshim_observed_add(call->comm->job->observed, &kind);
    call->comm->job->due = true;
}

/* Makes the call natively, and counts why. */
static ncclResult_t pass(const struct cshim_nccl_call *call, enum cshim_reason reason)
{
    if (reason != CSHIM_REASON_DISABLED)
        cshim_nccl_count_pass(call->comm, reason);
    const ncclResult_t status = cshim_nccl_natively(call);
    cshim_nccl_comm_release(call->comm);
    return status;
}

/* Whether a rule names allgather: it changes parameters rather than gradients, and data that is
 * only labelled as floats. */
static bool names_gathers(const struct cshim_policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        if ((policy->rules[i].collectives >> CSHIM_ALLGATHER & 1) != 0)
            return true;
    }
    return false;
}

/* Compresses the call or makes it natively. */
static ncclResult_t make(struct cshim_nccl_call call)
{
    struct cshim_premul premul = {.factor = 1};
    call.comm = cshim_nccl_comm_find(call.handle);
    if (call.comm == NULL)
        return cshim_nccl_natively(&call);
    const struct cshim_nccl_job *job = call.comm->job;
    if (call.collective == CSHIM_ALLGATHER && (job == NULL || !names_gathers(job->policy)))
        return pass(&call, CSHIM_REASON_DISABLED);
    if (job != NULL && job->observed != NULL) {
        observe(&call);
        return pass(&call, CSHIM_REASON_DISABLED);
    }
    const enum cshim_reason reason = reason_of(&call);
    if (reason != CSHIM_REASON_COMPRESS)
        return pass(&call, reason);
    if (call.op >= ncclNumOps)
        cshim_premul_find(call.op, call.handle, &premul);
    call.factor = premul.factor;
    call.factor_at = premul.factor_at;
    return cshim_group_add(&call);
}

ncclResult_t cshim_nccl_all_reduce(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream)
{
    return make((struct cshim_nccl_call){.collective = CSHIM_ALLREDUCE,
                                         .handle = comm,
                                         .send = send,
                                         .receive = receive,
                                         .count = count,
                                         .datatype = datatype,
                                         .op = op,
                                         .stream = stream});
}

ncclResult_t cshim_nccl_reduce_scatter(const void *send, void *receive, size_t count,
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream)
{
    return make((struct cshim_nccl_call){.collective = CSHIM_REDUCE_SCATTER,
                                         .handle = comm,
                                         .send = send,
                                         .receive = receive,
                                         .count = count,
                                         .datatype = datatype,
                                         .op = op,
                                         .stream = stream});
}

ncclResult_t cshim_nccl_all_gather(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return make((struct cshim_nccl_call){.collective = CSHIM_ALLGATHER,
                                         .handle = comm,
                                         .send = send,
                                         .receive = receive,
                                         .count = count,
                                         .datatype = datatype,
                                         .op = ncclSum,
                                         .stream = stream});
}
