/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: the functions for collectives and messages. */
#include <stdio.h>
#include <string.h>

#include "tests/nccl/standin/nccl_internal.h"

static bool reduces(enum standin_call_type kind)
{
    return kind == STANDIN_ALL_REDUCE || kind == STANDIN_REDUCE_SCATTER;
}

/* Sets the factor of PreMulSum operations and of the mean of floats. Returns an error if the
 * operation does not exist, or is for another type. */
static ncclResult_t resolve_op(struct standin_task *task)
{
    const struct standin_user_op *made = standin_user_op(task->comm, task->op);
    if ((unsigned)task->op < ncclNumOps) {
        if (task->op == ncclAvg)
            task->scalar.used =
                standin_reciprocal(task->dtype, task->comm->ranks, task->scalar.scalar);
        task->scalar.residence = ncclScalarHostImmediate;
        return ncclSuccess;
    }
    if (made == NULL) {
        fprintf(stderr, "standin libnccl: %s: no such operation\n", task->name);
        return ncclInvalidArgument;
    }
    if (made->dtype != task->dtype) {
        fprintf(stderr, "standin libnccl: %s: the operation is for another type\n", task->name);
        return ncclInvalidArgument;
    }
    task->scalar = *made;
    return ncclSuccess;
}

static ncclResult_t check(struct standin_task *task)
{
    const ncclComm_t comm = task->comm;
    if (standin_dtype_bytes(task->dtype) == 0 || task->root < 0 || task->root >= comm->ranks) {
        fprintf(stderr, "standin libnccl: %s: type %d or rank %d of %d is wrong\n", task->name,
                (int)task->dtype, task->root, comm->ranks);
        return ncclInvalidArgument;
    }
    if (comm->finalized || standin_is_stopped(comm, STANDIN_DATA))
        return ncclInvalidUsage;
    const CUcontext context = standin_the_driver()->stream_context(task->stream);
    if (context != NULL && standin_the_driver()->device_of(context) != comm->device) {
        fprintf(stderr, "standin libnccl: %s: the stream is of device %d, the communicator of %d\n",
                task->name, standin_the_driver()->device_of(context), comm->device);
        return ncclUnhandledCudaError;
    }
    return reduces(task->kind) ? resolve_op(task) : ncclSuccess;
}

static ncclResult_t call(struct standin_task task, int version)
{
    ncclResult_t result = standin_since(task.name, version);
    if (result == ncclSuccess)
        result = standin_check_comm(task.comm, false);
    if (result == ncclSuccess)
        result = check(&task);
    if (result != ncclSuccess)
        return standin_group_error(result);
    return task.count == 0 && task.kind < STANDIN_SEND ? ncclSuccess : standin_submit(&task);
}

#define TASK(kind, send, recv, count, op, root)                                                    \
    ((struct standin_task){kind,                                                                   \
                           &__func__ [1],                                                          \
                           comm,                                                                   \
                           send,                                                                   \
                           recv,                                                                   \
                           count,                                                                  \
                           dtype,                                                                  \
                           op,                                                                     \
                           { 0 },                                                                  \
                           root,                                                                   \
                           (CUstream)stream,                                                       \
                           NULL})

/* Defines a collective that came with `version`, and the function of NCCL 2.31 that has a
 * configuration besides, which it ignores. The other arguments are parameters. */
#define COLLECTIVE(name, version, task, ...)                                                       \
    STANDIN_EXPORT ncclResult_t p##name(__VA_ARGS__, ncclComm_t comm, cudaStream_t stream)         \
    {                                                                                              \
        return call(task, version);                                                                \
    }                                                                                              \
    STANDIN_NCCL(name);                                                                            \
    STANDIN_EXPORT ncclResult_t p##name##Config(__VA_ARGS__, ncclComm_t comm, cudaStream_t stream, \
                                                const void *config)                                \
    {                                                                                              \
        (void)config;                                                                              \
        return call(task, 23100);                                                                  \
    }                                                                                              \
    STANDIN_NCCL(name##Config)

COLLECTIVE(ncclAllReduce, 0, TASK(STANDIN_ALL_REDUCE, send, recv, count, op, 0), const void *send,
           void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op);
COLLECTIVE(ncclReduceScatter, 0, TASK(STANDIN_REDUCE_SCATTER, send, recv, count, op, 0),
           const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op);
COLLECTIVE(ncclAllGather, 0, TASK(STANDIN_ALL_GATHER, send, recv, count, ncclSum, 0),
           const void *send, void *recv, size_t count, ncclDataType_t dtype);
COLLECTIVE(ncclBroadcast, 0, TASK(STANDIN_BROADCAST, send, recv, count, ncclSum, root),
           const void *send, void *recv, size_t count, ncclDataType_t dtype, int root);
COLLECTIVE(ncclAlltoAll, 22800, TASK(STANDIN_ALL_TO_ALL, send, recv, count, ncclSum, 0),
           const void *send, void *recv, size_t count, ncclDataType_t dtype);

STANDIN_EXPORT ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t dtype, int root,
                                       ncclComm_t comm, cudaStream_t stream)
{
    return call(TASK(STANDIN_BROADCAST, buffer, buffer, count, ncclSum, root), 0);
}
STANDIN_NCCL(ncclBcast);

STANDIN_EXPORT ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t dtype,
                                      int peer, ncclComm_t comm, cudaStream_t stream)
{
    return call(TASK(STANDIN_SEND, send, NULL, count, ncclSum, peer), 20700);
}
STANDIN_NCCL(ncclSend);

STANDIN_EXPORT ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer,
                                      ncclComm_t comm, cudaStream_t stream)
{
    return call(TASK(STANDIN_RECV, NULL, recv, count, ncclSum, peer), 20700);
}
STANDIN_NCCL(ncclRecv);
