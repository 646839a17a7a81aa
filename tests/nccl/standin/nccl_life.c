/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for NCCL, for tests; proves nothing about speed or the real library.
 * Here: the end of communicators, questions to them, and operations of the program's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/nccl_internal.h"

/* Checks that every function of a communicator begins with. */
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
    const ncclResult_t result = enter("ncclCommDestroy", 0, comm, false);
    if (result != ncclSuccess)
        return result;
    standin_settle(comm);
    comm->magic = 0;
    standin_let_go(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommDestroy);

/* Ends what runs, at any time and from any thread; waits for nothing of other ranks. */
STANDIN_EXPORT ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    const ncclResult_t result = enter("ncclCommAbort", 0, comm, true);
    if (result != ncclSuccess)
        return result;
    raise_abort(comm);
    standin_settle(comm);
    comm->magic = 0;
    standin_let_go(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommAbort);

static ncclResult_t settle_job(void *argument)
{
    standin_wait_operations(argument);
    return ncclSuccess;
}

STANDIN_EXPORT ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    const ncclResult_t result = enter("ncclCommFinalize", 21400, comm, false);
    if (result != ncclSuccess)
        return result;
    if (comm->finalized)
        return ncclInvalidArgument;
    comm->finalized = true;
    if (!comm->blocking)
        return standin_background(comm, settle_job, comm);
    standin_settle(comm);
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommFinalize);

/* Questions
 * --------------------------------------------------------------------------------------*/
STANDIN_EXPORT ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    const ncclResult_t result = enter("ncclCommGetAsyncError", 0, comm, true);
    if (result == ncclSuccess && error != NULL)
        *error = (ncclResult_t)__atomic_load_n(&comm->async, __ATOMIC_ACQUIRE);
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

STANDIN_EXPORT const char *pncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "stand-in for NCCL: its errors are on stderr";
}
STANDIN_NCCL(ncclGetLastError);

/* Operations of the program's own. A handle is mixed with its communicator's address, as really, so
 * that it means something else, or nothing, with another one.
 * -------------------------------------*/
static unsigned mixed(ncclComm_t comm, unsigned slot)
{
    const uint64_t hash = (uint64_t)(uintptr_t)comm * 0x9e3779b97f4a7c15u;
    return (slot ^ ((unsigned)(hash >> 40) & 0xffffc0u)) + ncclNumOps;
}

struct standin_user_op *standin_user_op(ncclComm_t comm, ncclRedOp_t op)
{
    for (unsigned slot = 0; slot < STANDIN_USER_OPS_MAX; slot++)
        if (mixed(comm, slot) == (unsigned)op && comm->user_ops[slot].used)
            return &comm->user_ops[slot];
    return NULL;
}

STANDIN_EXPORT ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                      ncclDataType_t dtype,
                                                      ncclScalarResidence_t residence,
                                                      ncclComm_t comm)
{
    const ncclResult_t result = enter("ncclRedOpCreatePreMulSum", 21100, comm, false);
    if (result != ncclSuccess)
        return result;
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
        *op = (ncclRedOp_t)mixed(comm, slot);
        return ncclSuccess;
    }
    return ncclInternalError;
}
STANDIN_NCCL(ncclRedOpCreatePreMulSum);

STANDIN_EXPORT ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    const ncclResult_t result = enter("ncclRedOpDestroy", 21100, comm, false);
    if (result != ncclSuccess)
        return result;
    struct standin_user_op *made = standin_user_op(comm, op);
    if (made == NULL) {
        fprintf(stderr, "standin libnccl: ncclRedOpDestroy: no such operation\n");
        return ncclInvalidArgument;
    }
    memset(made, 0, sizeof *made);
    return ncclSuccess;
}
STANDIN_NCCL(ncclRedOpDestroy);

/* Memory
 * -----------------------------------------------------------------------------------------*/
STANDIN_EXPORT ncclResult_t pncclMemAlloc(void **pointer, size_t bytes)
{
    const ncclResult_t result = standin_since("ncclMemAlloc", 21900);
    if (result != ncclSuccess)
        return result;
    return pointer != NULL && standin_the_driver()->allocate(pointer, bytes) == CUDA_SUCCESS
               ? ncclSuccess
               : ncclUnhandledCudaError;
}
STANDIN_NCCL(ncclMemAlloc);

STANDIN_EXPORT ncclResult_t pncclMemFree(void *pointer)
{
    const ncclResult_t result = standin_since("ncclMemFree", 21900);
    if (result != ncclSuccess)
        return result;
    return standin_the_driver()->deallocate(pointer) == CUDA_SUCCESS ? ncclSuccess
                                                                     : ncclUnhandledCudaError;
}
STANDIN_NCCL(ncclMemFree);

/* Registration makes no difference here. */
STANDIN_EXPORT ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes,
                                              void **handle)
{
    const ncclResult_t result = enter("ncclCommRegister", 21900, comm, false);
    if (result != ncclSuccess)
        return result;
    if (buffer == NULL || bytes == 0 || handle == NULL)
        return ncclInvalidArgument;
    *handle = buffer;
    return ncclSuccess;
}
STANDIN_NCCL(ncclCommRegister);

STANDIN_EXPORT ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
    const ncclResult_t result = enter("ncclCommDeregister", 21900, comm, false);
    return result == ncclSuccess && handle == NULL ? ncclInvalidArgument : result;
}
STANDIN_NCCL(ncclCommDeregister);

/* Known by name only.
 * ----------------------------------------------------------------------------*/
static ncclResult_t refuse(const char *name)
{
    fprintf(stderr, "standin libnccl: %s is not imitated\n", name);
    return ncclInternalError;
}

STANDIN_EXPORT ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
    (void)comm, (void)flags;
    return refuse("ncclCommRevoke");
}
STANDIN_NCCL(ncclCommRevoke);

STANDIN_EXPORT ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes,
                                                    ncclWindow_t *window, int flags)
{
    (void)comm, (void)buffer, (void)bytes, (void)window, (void)flags;
    return refuse("ncclCommWindowRegister");
}
STANDIN_NCCL(ncclCommWindowRegister);

STANDIN_EXPORT ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    (void)comm, (void)window;
    return refuse("ncclCommWindowDeregister");
}
STANDIN_NCCL(ncclCommWindowDeregister);

#define REFUSED(name)                                                                              \
    STANDIN_EXPORT ncclResult_t pnccl##name(void);                                                 \
    ncclResult_t pnccl##name(void)                                                                 \
    {                                                                                              \
        return refuse("nccl" #name);                                                               \
    }                                                                                              \
    extern __typeof__(pnccl##name) nccl##name                                                      \
        __attribute__((weak, alias("pnccl" #name), visibility("default")))
REFUSED(DevCommCreate);
REFUSED(DevCommDestroy);
REFUSED(GinBarrierCreateRequirement);
REFUSED(LLA2ACalcSlots);
REFUSED(LLA2ACreateRequirement);
REFUSED(LsaBarrierCreateRequirement);
REFUSED(TeamLsa);
REFUSED(TeamRail);
REFUSED(TeamRankToLsa);
REFUSED(TeamRankToWorld);
REFUSED(TeamWorld);

/* Without attribute "deprecated" here: it is defined, not called. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
STANDIN_EXPORT void pncclResetDebugInit(void)
{
    refuse("ncclResetDebugInit");
}
STANDIN_NCCL(ncclResetDebugInit);

STANDIN_EXPORT void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void)
{
    refuse("ncclResetDebugInitInternal");
}
