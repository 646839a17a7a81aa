/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/describe.h"

/* A sum whose elements are multiplied first is a sum. */
static enum cshim_op op_of(const struct cshim_nccl_call *call)
{
    if (call->op == ncclAvg)
        return CSHIM_AVG;
    if (call->op == ncclSum || (call->op >= ncclNumOps && call->premul.datatype == call->datatype))
        return CSHIM_SUM;
    return CSHIM_OP_OTHER;
}

uint64_t cshim_call_elements(const struct cshim_nccl_call *call)
{
    const uint64_t ranks = (uint64_t)call->comm->ranks;
    return call->collective == CSHIM_ALLREDUCE ? call->count : call->count * ranks;
}

struct cshim_call cshim_call_facts(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const enum cshim_dtype dtype = cshim_nccl_dtype(call->datatype);
    /* NCCL's operation with a factor belongs to the communicator, not to that of a node. */
    const bool has_levels = comm->inside != NULL && call->op < ncclNumOps;
    return (struct cshim_call){
        .library = CSHIM_NCCL,
        .collective = call->collective,
        .dtype = dtype,
        .op = op_of(call),
        .bytes = cshim_call_elements(call) * cshim_dtype_bytes(dtype),
        .ranks = (uint32_t)comm->ranks,
        .nodes = comm->nodes,
        .ranks_per_node = has_levels ? comm->ranks_per_node : 0,
    };
}

ncclResult_t cshim_call_natively(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    if (call->collective == CSHIM_ALLREDUCE)
        return real->AllReduce(call->send, call->receive, call->count, call->datatype, call->op,
                               call->handle, call->stream);
    if (call->collective == CSHIM_ALLGATHER)
        return real->AllGather(call->send, call->receive, call->count, call->datatype, call->handle,
                               call->stream);
    return real->ReduceScatter(call->send, call->receive, call->count, call->datatype, call->op,
                               call->handle, call->stream);
}
