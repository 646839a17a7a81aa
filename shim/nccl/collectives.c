/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/collectives.h"

#include "shim/nccl/capture.h"

/* Why a call goes to NCCL as it is, as far as that can be known before the communicator is
 * prepared. Arguments that NCCL refuses are left to it. */
static enum cshim_reason reason_of(struct cshim_nccl_call *call)
{
    const struct cshim_rule *rule;
    if (call->comm->reason != CSHIM_REASON_COMPRESS || call->comm->job == NULL)
        return call->comm->reason;
    const struct cshim_call facts = cshim_call_facts(call);
    const enum cshim_reason reason =
        cshim_plan_reason(call->comm->job->policy, &facts, cshim_call_elements(call), &rule);
    if (reason != CSHIM_REASON_COMPRESS)
        return reason;
    if (call->send == NULL || call->receive == NULL)
        return CSHIM_REASON_DISABLED;
    return cshim_capture_look(call);
}

/* Makes a call natively. Calls that are not compressed for a reason are counted. */
static ncclResult_t pass(const struct cshim_nccl_call *call, enum cshim_reason reason)
{
    if (reason != CSHIM_REASON_DISABLED)
        cshim_measure_pass(call->comm, reason);
    const ncclResult_t status = cshim_call_natively(call);
    cshim_registry_release(call->comm);
    return status;
}

/* Compresses a call or makes it natively. */
static ncclResult_t make(enum cshim_collective collective, const void *send, void *receive,
                         size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                         cudaStream_t stream)
{
    struct cshim_nccl_call call = {
        .handle = comm,
        .comm = cshim_registry_find(comm),
        .collective = collective,
        .send = send,
        .receive = receive,
        .count = count,
        .datatype = datatype,
        .op = op,
        .stream = stream,
        .premul.factor = 1,
    };
    if (call.comm == NULL)
        return cshim_call_natively(&call);
    const struct cshim_nccl_job *job = call.comm->job;
    if (call.collective == CSHIM_ALLGATHER &&
        (job == NULL || !cshim_policy_names(job->policy, CSHIM_NCCL, CSHIM_ALLGATHER)))
        return pass(&call, CSHIM_REASON_DISABLED);
    if (job != NULL && job->observed != NULL) {
        cshim_measure_observe(&call);
        return pass(&call, CSHIM_REASON_DISABLED);
    }
    const enum cshim_reason reason = reason_of(&call);
    if (reason != CSHIM_REASON_COMPRESS)
        return pass(&call, reason);
    if (call.op >= ncclNumOps)
        cshim_premul_find(call.op, call.handle, &call.premul);
    return cshim_group_add(&call);
}

ncclResult_t cshim_nccl_all_reduce(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                   cudaStream_t stream)
{
    return make(CSHIM_ALLREDUCE, send, receive, count, datatype, op, comm, stream);
}

ncclResult_t cshim_nccl_reduce_scatter(const void *send, void *receive, size_t count,
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream)
{
    return make(CSHIM_REDUCE_SCATTER, send, receive, count, datatype, op, comm, stream);
}

ncclResult_t cshim_nccl_all_gather(const void *send, void *receive, size_t count,
                                   ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return make(CSHIM_ALLGATHER, send, receive, count, datatype, ncclSum, comm, stream);
}
