/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/describe.h"

#include <stdlib.h>
#include <string.h>

#include "shim/core/sample.h"

struct operation {
    ncclRedOp_t op;
    ncclComm_t comm;
    struct cshim_premul premul;
    unsigned calls; /* number of recorded calls that still need the operation */
    bool is_ended;  /* the program has destroyed the operation */
    struct operation *next;
};

/* Guards `operations`. Also held while NCCL makes or destroys an operation: NCCL takes no lock, and
 * the engine may destroy an operation on a background thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct operation *operations;

/* Returns the planner's element type; CSHIM_DTYPE_OTHER for types that no codec encodes. */
static enum cshim_dtype dtype_of(ncclDataType_t datatype)
{
    return datatype == ncclFloat32    ? CSHIM_FLOAT32
           : datatype == ncclFloat64  ? CSHIM_FLOAT64
           : datatype == ncclFloat16  ? CSHIM_FLOAT16
           : datatype == ncclBfloat16 ? CSHIM_BFLOAT16
                                      : CSHIM_DTYPE_OTHER;
}

/* Returns the link to an operation, which is NULL if there is none. The caller holds the lock. */
static struct operation **find_link(ncclRedOp_t op, ncclComm_t comm)
{
    struct operation **link = &operations;
    while (*link != NULL && ((*link)->op != op || (*link)->comm != comm))
        link = &(*link)->next;
    return link;
}

void cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul)
{
    pthread_mutex_lock(&lock);
    const struct operation *operation = *find_link(op, comm);
    if (operation != NULL)
        *premul = operation->premul;
    pthread_mutex_unlock(&lock);
}

ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm)
{
    const enum cshim_dtype dtype = dtype_of(datatype);
    struct operation *made = calloc(1, sizeof *made);
    if (made == NULL) /* an error, because other ranks may make the operation */
        return ncclSystemError;
    pthread_mutex_lock(&lock);
    const ncclResult_t status =
        cshim_nccl.real->RedOpCreatePreMulSum(op, scalar, datatype, residence, comm);
    if (status != ncclSuccess) {
        pthread_mutex_unlock(&lock);
        free(made);
        return status;
    }
    made->op = *op;
    made->comm = comm;
    made->premul = (struct cshim_premul){.factor = 1, .datatype = datatype};
    if (residence != ncclScalarHostImmediate)
        made->premul.factor_at = scalar;
    else if (dtype != CSHIM_DTYPE_OTHER) {
        cshim_sample_widen(dtype, scalar, 1, &made->premul.factor);
        memcpy(&made->premul.scalar, scalar, cshim_dtype_bytes(dtype));
    }
    made->next = operations;
    operations = made;
    pthread_mutex_unlock(&lock);
    return status;
}

/* Destroys an operation that the program has destroyed, if no call needs it any more. The caller
 * holds the lock. */
static ncclResult_t destroy_ended(struct operation **link)
{
    struct operation *operation = *link;
    if (!operation->is_ended || operation->calls > 0)
        return ncclSuccess;
    const ncclResult_t status = cshim_nccl.real->RedOpDestroy(operation->op, operation->comm);
    *link = operation->next;
    free(operation);
    return status;
}

ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t status;
    pthread_mutex_lock(&lock);
    struct operation **link = find_link(op, comm);
    if (*link == NULL) {
        status = cshim_nccl.real->RedOpDestroy(op, comm);
    } else {
        (*link)->is_ended = true;
        status = destroy_ended(link);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void cshim_premul_hold(ncclRedOp_t op, ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct operation *operation = *find_link(op, comm);
    if (operation != NULL)
        operation->calls++;
    pthread_mutex_unlock(&lock);
}

void cshim_premul_release(ncclRedOp_t op, ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct operation **link = find_link(op, comm);
    if (*link != NULL && (*link)->calls > 0) { /* not if the operation is a later communicator's */
        (*link)->calls--;
        (void)destroy_ended(link);
    }
    pthread_mutex_unlock(&lock);
}

void cshim_premul_forget(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    for (struct operation **link = &operations, *one; (one = *link) != NULL;) {
        if (one->comm != comm) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free(one);
    }
    pthread_mutex_unlock(&lock);
}

/* Returns the planner's operation; a PreMulSum is a sum. */
static enum cshim_op op_of(const struct cshim_nccl_call *call)
{
    if (call->op == ncclAvg)
        return CSHIM_AVG;
    if (call->op == ncclSum || (call->op >= ncclNumOps && call->premul.datatype == call->datatype))
        return CSHIM_SUM;
    return CSHIM_OP_OTHER;
}

bool cshim_call_gives(const struct cshim_nccl_call *call)
{
    return call->collective != CSHIM_BROADCAST || call->comm->rank == call->root;
}

uint64_t cshim_call_elements(const struct cshim_nccl_call *call)
{
    const uint64_t ranks = (uint64_t)call->comm->ranks;
    return cshim_shapes[call->collective].has_blocks ? call->count * ranks : call->count;
}

struct cshim_call cshim_call_facts(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_comm *comm = call->comm;
    const enum cshim_dtype dtype = dtype_of(call->datatype);
    return (struct cshim_call){
        .library = CSHIM_NCCL,
        .collective = call->collective,
        .dtype = dtype,
        .op = op_of(call),
        .root = (uint32_t)call->root,
        .bytes = cshim_call_elements(call) * cshim_dtype_bytes(dtype),
        .ranks = (uint32_t)comm->ranks,
        .nodes = comm->nodes,
        .ranks_per_node = comm->inside != NULL ? comm->layout.ranks_per_node : 0,
    };
}

/* If the number of nodes is unknown, tries 1 and the numbers from which a rule matches or no longer
 * matches (min_nodes, max_nodes + 1): between these the rules decide alike. */
enum cshim_reason cshim_call_reason(const struct cshim_nccl_call *call)
{
    const struct cshim_policy *policy = call->comm->job->policy;
    const uint64_t elements = cshim_call_elements(call);
    struct cshim_call facts = cshim_call_facts(call);
    const struct cshim_rule *rule;
    if (facts.nodes != 0)
        return cshim_plan_reason(policy, &facts, elements, &rule);
    facts.nodes = 1;
    enum cshim_reason reason = cshim_plan_reason(policy, &facts, elements, &rule);
    for (size_t i = 0; i < 2 * policy->rule_count && reason != CSHIM_REASON_COMPRESS; i++) {
        const struct cshim_rule *limit = &policy->rules[i / 2];
        facts.nodes = i % 2 == 0 ? limit->min_nodes : limit->max_nodes + 1;
        if (facts.nodes > 1 && facts.nodes <= facts.ranks)
            reason = cshim_plan_reason(policy, &facts, elements, &rule);
    }
    return reason;
}

ncclResult_t cshim_call_natively(const struct cshim_nccl_call *call)
{
    const struct cshim_nccl_real *real = cshim_nccl.real;
    switch (call->collective) {
    case CSHIM_ALLREDUCE:
        return real->AllReduce(call->send, call->receive, call->count, call->datatype, call->op,
                               call->handle, call->stream);
    case CSHIM_ALLGATHER:
        return real->AllGather(call->send, call->receive, call->count, call->datatype, call->handle,
                               call->stream);
    case CSHIM_ALLTOALL:
        return real->AlltoAll(call->send, call->receive, call->count, call->datatype, call->handle,
                              call->stream);
    case CSHIM_BROADCAST:
        return real->Broadcast(call->send, call->receive, call->count, call->datatype, call->root,
                               call->handle, call->stream);
    default:
        return real->ReduceScatter(call->send, call->receive, call->count, call->datatype, call->op,
                                   call->handle, call->stream);
    }
}
