/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: the end of communicators, queries, and PreMulSum operations. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/nccl_internal.h"

/* Begins the functions of a communicator in this file: checks the function's version, injected
 * faults and the handle. */
static ncclResult_t enter(const char *name, int version, ncclComm_t comm, bool may_be_busy)
{
    const ncclResult_t result = standin_since(name, version);
    return result == ncclSuccess ? standin_check_comm(comm, may_be_busy) : result;
}

static void raise_abort(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->lock);
    __atomic_store_n(&comm->aborted, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&comm->progress);
    pthread_mutex_unlock(&comm->lock);
}

STANDIN_EXPORT ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    STANDIN_CHECK(enter("ncclCommDestroy", 0, comm, false));
    standin_settle(comm);
    comm->magic = 0;
    standin_let_go(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommDestroy);

/* Ends the communicator's operations, and the communicator, at any time and from any thread. */
STANDIN_EXPORT ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    STANDIN_CHECK(enter("ncclCommAbort", 0, comm, true));
    raise_abort(comm);
    standin_settle(comm);
    comm->magic = 0;
    standin_let_go(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommAbort);

/* Ends operations without waiting for other ranks. Afterwards the communicator accepts no
 * collectives or messages, but can make children. */
STANDIN_EXPORT ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
    if (comm == NULL)
        return ncclSuccess;
    STANDIN_CHECK(enter("ncclCommRevoke", 22807, comm, true));
    if (flags != 0)
        return ncclInvalidArgument;
    pthread_mutex_lock(&comm->lock);
    const bool again = __atomic_exchange_n(&comm->revoked, 1, __ATOMIC_ACQ_REL) != 0;
    pthread_cond_broadcast(&comm->progress);
    pthread_mutex_unlock(&comm->lock);
    return again ? ncclInvalidArgument : ncclSuccess;
}
STANDIN_NCCL(ncclCommRevoke);

static ncclResult_t settle_job(void *argument)
{
    standin_wait_operations(argument);
    return ncclSuccess;
}

STANDIN_EXPORT ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    STANDIN_CHECK(enter("ncclCommFinalize", 21400, comm, false));
    if (comm->finalized || standin_is_stopped(comm, STANDIN_DATA))
        return ncclInvalidArgument;
    comm->finalized = true;
    if (!comm->blocking)
        return standin_background(comm, settle_job, comm);
    standin_settle(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommFinalize);

/* Queries -------------------------------------------------------------------------------------- */
STANDIN_EXPORT ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    const ncclResult_t result = enter("ncclCommGetAsyncError", 0, comm, true);
    if (result == ncclSuccess && error != NULL) {
        /* NCCL frees what a completed group has allocated, without a lock. */
        if (__atomic_exchange_n(&comm->is_asked, true, __ATOMIC_ACQUIRE)) {
            fprintf(stderr, "stand-in: two threads are in ncclCommGetAsyncError\n");
            abort();
        }
        sched_yield();
        *error = (ncclResult_t)__atomic_load_n(&comm->async, __ATOMIC_ACQUIRE);
        __atomic_store_n(&comm->is_asked, false, __ATOMIC_RELEASE);
    }
    return error != NULL ? result : ncclInvalidArgument;
}
STANDIN_NCCL(ncclCommGetAsyncError);

STANDIN_EXPORT ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    const ncclResult_t result = enter("ncclCommCount", 0, comm, false);
    if (result == ncclSuccess && count != NULL)
        *count = comm->ranks;
    return count != NULL ? result : ncclInvalidArgument;
}
STANDIN_NCCL(ncclCommCount);

STANDIN_EXPORT ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
    const ncclResult_t result = enter("ncclCommCuDevice", 0, comm, false);
    if (result == ncclSuccess && device != NULL)
        *device = comm->device;
    return device != NULL ? result : ncclInvalidArgument;
}
STANDIN_NCCL(ncclCommCuDevice);

STANDIN_EXPORT ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
    const ncclResult_t result = enter("ncclCommUserRank", 0, comm, false);
    if (result == ncclSuccess && rank != NULL)
        *rank = comm->rank;
    return rank != NULL ? result : ncclInvalidArgument;
}
STANDIN_NCCL(ncclCommUserRank);

STANDIN_EXPORT ncclResult_t pncclGetVersion(int *version)
{
    if (version == NULL)
        return ncclInvalidArgument;
    *version = standin_version();
    return ncclSuccess;
}
STANDIN_NCCL(ncclGetVersion);

STANDIN_EXPORT const char *pncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}
STANDIN_NCCL(ncclGetErrorString);

/* PreMulSum operations ------------------------------------------------------------------------- */
/* Returns the handle of a slot, mixed with the communicator's address as by the real NCCL: with
 * another communicator the handle is invalid, or that of another operation. */
static unsigned mix_handle(ncclComm_t comm, unsigned slot)
{
    const uint64_t hash = (uint64_t)(uintptr_t)comm * 0x9e3779b97f4a7c15u;
    return (slot ^ ((unsigned)(hash >> 40) & 0xffffc0u)) + ncclNumOps;
}

struct standin_user_op *standin_user_op(ncclComm_t comm, ncclRedOp_t op)
{
    for (unsigned slot = 0; slot < STANDIN_USER_OPS_MAX; slot++)
        if (mix_handle(comm, slot) == (unsigned)op && comm->user_ops[slot].used)
            return &comm->user_ops[slot];
    return NULL;
}

STANDIN_EXPORT ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                      ncclDataType_t dtype,
                                                      ncclScalarResidence_t residence,
                                                      ncclComm_t comm)
{
    STANDIN_CHECK(enter("ncclRedOpCreatePreMulSum", 21100, comm, false));
    if (op == NULL || scalar == NULL || standin_dtype_bytes(dtype) == 0 ||
        (unsigned)residence > ncclScalarHostImmediate)
        return ncclInvalidArgument;
    for (unsigned slot = 0; slot < STANDIN_USER_OPS_MAX; slot++) {
        struct standin_user_op *made = &comm->user_ops[slot];
        if (made->used)
            continue;
        *made = (struct standin_user_op){true, dtype, residence, scalar, {0}};
        if (residence == ncclScalarHostImmediate)
            memcpy(made->scalar, scalar, standin_dtype_bytes(dtype));
        *op = (ncclRedOp_t)mix_handle(comm, slot);
        return ncclSuccess;
    }
    return ncclInternalError;
}
STANDIN_NCCL(ncclRedOpCreatePreMulSum);

STANDIN_EXPORT ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    STANDIN_CHECK(enter("ncclRedOpDestroy", 21100, comm, true)); /* NCCL does not look */
    struct standin_user_op *made = standin_user_op(comm, op);
    if (made == NULL) {
        fprintf(stderr, "standin libnccl: ncclRedOpDestroy: no such operation\n");
        return ncclInvalidArgument;
    }
    memset(made, 0, sizeof *made);
    return ncclSuccess;
}
STANDIN_NCCL(ncclRedOpDestroy);
