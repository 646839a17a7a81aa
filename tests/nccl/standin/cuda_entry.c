/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: cuGetProcAddress, and what libnccl.so.2 finds. */
#include <string.h>

#include "tests/nccl/standin/cuda_internal.h"

/* Functions that have kept their form since the version given, and forms that came and went: the
 * newest that is not newer than what is asked for. Names are without suffix, as really. */
#undef cuEventElapsedTime
#undef cuStreamGetCaptureInfo
extern CUresult cuEventElapsedTime(float *, CUevent, CUevent);
extern CUresult cuStreamGetCaptureInfo(CUstream, CUstreamCaptureStatus *, cuuint64_t *);
extern CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                                          CUgraph *, const CUgraphNode **, size_t *);
extern CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

#define PLAIN(name, since)                                                                         \
    {                                                                                              \
#name, since, (void (*)(void))name                                                         \
    }
#define FORM(name, suffix, since)                                                                  \
    {                                                                                              \
#name, since, (void (*)(void))name##suffix                                                 \
    }

static const struct entry {
    const char *name;
    int since;
    void (*function)(void);
} entries[] = {
    PLAIN(cuInit, 2000),
    PLAIN(cuDriverGetVersion, 2020),
    PLAIN(cuGetErrorName, 6000),
    PLAIN(cuGetErrorString, 6000),
    FORM(cuGetProcAddress, _v2, 12000),
    PLAIN(cuDeviceGet, 2000),
    PLAIN(cuDeviceGetCount, 2000),
    PLAIN(cuDeviceGetName, 2000),
    PLAIN(cuDeviceGetAttribute, 2000),
    FORM(cuDeviceGetUuid, _v2, 11040),
    FORM(cuDeviceTotalMem, _v2, 3020),
    PLAIN(cuDevicePrimaryCtxRetain, 7000),
    FORM(cuDevicePrimaryCtxRelease, _v2, 11000),
    PLAIN(cuDevicePrimaryCtxGetState, 7000),
    FORM(cuCtxCreate, _v2, 3020),
    FORM(cuCtxCreate, _v4, 12050),
    FORM(cuCtxDestroy, _v2, 4000),
    FORM(cuCtxPushCurrent, _v2, 4000),
    FORM(cuCtxPopCurrent, _v2, 4000),
    PLAIN(cuCtxSetCurrent, 4000),
    PLAIN(cuCtxGetCurrent, 4000),
    PLAIN(cuCtxGetDevice, 2000),
    PLAIN(cuCtxSynchronize, 2000),
    PLAIN(cuStreamCreate, 2000),
    PLAIN(cuStreamCreateWithPriority, 5050),
    FORM(cuStreamDestroy, _v2, 4000),
    PLAIN(cuStreamSynchronize, 2000),
    PLAIN(cuStreamQuery, 2000),
    PLAIN(cuStreamGetCtx, 9020),
    PLAIN(cuStreamGetFlags, 5050),
    PLAIN(cuStreamGetDevice, 12080),
    PLAIN(cuStreamWaitEvent, 3020),
    PLAIN(cuStreamIsCapturing, 10000),
    FORM(cuStreamBeginCapture, _v2, 10010),
    PLAIN(cuStreamEndCapture, 10000),
    PLAIN(cuStreamGetCaptureInfo, 10010),
    FORM(cuStreamGetCaptureInfo, _v2, 11030),
    FORM(cuStreamGetCaptureInfo, _v3, 12030),
    PLAIN(cuThreadExchangeStreamCaptureMode, 10010),
    PLAIN(cuEventCreate, 2000),
    FORM(cuEventDestroy, _v2, 4000),
    PLAIN(cuEventRecord, 2000),
    PLAIN(cuEventRecordWithFlags, 11010),
    PLAIN(cuEventQuery, 2000),
    PLAIN(cuEventSynchronize, 2000),
    PLAIN(cuEventElapsedTime, 2000),
    FORM(cuEventElapsedTime, _v2, 12080),
    PLAIN(cuLaunchHostFunc, 10000),
    FORM(cuMemAlloc, _v2, 3020),
    FORM(cuMemFree, _v2, 3020),
    FORM(cuMemGetInfo, _v2, 3020),
    PLAIN(cuMemHostAlloc, 2020),
    FORM(cuMemAllocHost, _v2, 3020),
    PLAIN(cuMemFreeHost, 2000),
    FORM(cuMemHostGetDevicePointer, _v2, 3020),
    PLAIN(cuPointerGetAttribute, 4000),
    PLAIN(cuMemPoolCreate, 11020),
    PLAIN(cuMemPoolDestroy, 11020),
    PLAIN(cuMemPoolSetAttribute, 11020),
    PLAIN(cuMemPoolTrimTo, 11020),
    PLAIN(cuDeviceGetDefaultMemPool, 11020),
    PLAIN(cuMemAllocFromPoolAsync, 11020),
    PLAIN(cuMemAllocAsync, 11020),
    PLAIN(cuMemFreeAsync, 11020),
    PLAIN(cuMemcpy, 4000),
    PLAIN(cuMemcpyAsync, 4000),
    FORM(cuMemcpyHtoD, _v2, 3020),
    FORM(cuMemcpyDtoH, _v2, 3020),
    FORM(cuMemcpyDtoD, _v2, 3020),
    FORM(cuMemcpyHtoDAsync, _v2, 3020),
    FORM(cuMemcpyDtoHAsync, _v2, 3020),
    FORM(cuMemcpyDtoDAsync, _v2, 3020),
    PLAIN(cuMemsetD8Async, 3020),
    PLAIN(cuMemsetD32Async, 3020),
    FORM(cuMemsetD8, _v2, 3020),
    FORM(cuMemsetD32, _v2, 3020),
    PLAIN(cuLibraryLoadData, 12000),
    PLAIN(cuLibraryUnload, 12000),
    PLAIN(cuLibraryGetKernel, 12000),
    PLAIN(cuKernelGetFunction, 12000),
    PLAIN(cuFuncLoad, 12040),
    PLAIN(cuLaunchKernel, 4000),
    PLAIN(cuUserObjectCreate, 11030),
    PLAIN(cuUserObjectRelease, 11030),
    PLAIN(cuGraphRetainUserObject, 11030),
    PLAIN(cuGraphInstantiateWithFlags, 11040),
    FORM(cuGraphInstantiate, WithFlags, 12000),
    PLAIN(cuGraphLaunch, 10000),
    PLAIN(cuGraphDestroy, 10000),
    PLAIN(cuGraphExecDestroy, 10000),
};

STANDIN_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                            cuuint64_t flags, CUdriverProcAddressQueryResult *found)
{
    const struct entry *best = NULL, *any = NULL;
    if (symbol == NULL || function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    if (flags > CU_GET_PROC_ADDRESS_LEGACY_STREAM) /* per-thread streams as 0 are not imitated */
        return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *entry = &entries[i];
        if (strcmp(entry->name, symbol) != 0)
            continue;
        any = entry;
        if (entry->since <= version && (best == NULL || entry->since > best->since))
            best = entry;
    }
    if (found != NULL)
        *found = best != NULL  ? CU_GET_PROC_ADDRESS_SUCCESS
                 : any != NULL ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (best == NULL)
        return CUDA_ERROR_NOT_FOUND;
    memcpy(function, &best->function, sizeof *function);
    return CUDA_SUCCESS;
}

/* For libnccl.so.2 ------------------------------------------------------------------------------*/
static CUresult enqueue(CUstream handle, CUcontext context, struct standin_op *op)
{
    CUstream stream;
    const CUresult status = standin_stream_in(handle, context, &stream);
    if (status == CUDA_SUCCESS)
        return standin_enqueue(stream, op);
    standin_op_free(op);
    return status;
}

static int device_of(CUcontext context)
{
    return context->magic == STANDIN_CONTEXT ? context->device : -1;
}

static CUcontext stream_context(CUstream stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD
               ? NULL
               : stream->context;
}

static uint64_t capture_of(CUstream handle, CUcontext context)
{
    CUstream stream;
    return standin_stream_in(handle, context, &stream) == CUDA_SUCCESS ? standin_capture_id(stream)
                                                                       : 0;
}

static CUresult chain(CUstream from_handle, CUstream to_handle, CUcontext context)
{
    CUstream from = NULL, to = NULL;
    struct CUevent_st event = {.magic = STANDIN_EVENT};
    CUresult status = standin_stream_in(from_handle, context, &from);
    if (status == CUDA_SUCCESS)
        status = standin_stream_in(to_handle, context, &to);
    if (status != CUDA_SUCCESS || from == to)
        return status;
    pthread_mutex_lock(&standin_lock);
    if (from->capture != NULL)
        status = standin_capture_record(from, &event);
    if (status == CUDA_SUCCESS && !standin_capture_wait(to, &event, &status))
        standin_append_wait(to, from, from->enqueued, &from->clock);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

static void let_run(void)
{
    pthread_mutex_lock(&standin_lock);
    standin_release_all();
    pthread_mutex_unlock(&standin_lock);
}

static CUcontext current_or_primary(void)
{
    CUcontext context = standin_current();
    if (context == NULL && cuInit(0) == CUDA_SUCCESS &&
        cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

static CUcontext primary(int device)
{
    CUcontext context = NULL;
    if (cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

static CUresult allocate(void **pointer, size_t bytes)
{
    CUdeviceptr memory = 0;
    const CUresult status = cuMemAlloc(&memory, bytes);
    *pointer = (void *)(uintptr_t)memory;
    return status;
}

static CUresult deallocate(void *pointer)
{
    return cuMemFree((CUdeviceptr)(uintptr_t)pointer);
}

STANDIN_EXPORT const struct standin_driver standin_driver = {
    .enqueue = enqueue,
    .memory = standin_memory,
    .is_memory = standin_is_memory,
    .device_of = device_of,
    .stream_context = stream_context,
    .capture_of = capture_of,
    .chain = chain,
    .let_run = let_run,
    .current_or_primary = current_or_primary,
    .primary = primary,
    .allocate = allocate,
    .deallocate = deallocate,
    .op_new = standin_op_new,
    .fails = standin_fails,
    .process_rank = standin_process_rank,
};
