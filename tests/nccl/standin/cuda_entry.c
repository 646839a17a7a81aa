/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: cuGetProcAddress, and the functions for libnccl.so.2. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/nccl/standin/cuda_internal.h"

/* Sets *function to version _v2 of a function, or to the function without suffix if there is none.
 * Ignores the requested version: kernels/driver.h gets its types from CUDA's own headers. */
STANDIN_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                            cuuint64_t flags, CUdriverProcAddressQueryResult *found)
{
    char second[64];
    (void)version;
    if (symbol == NULL || function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags > CU_GET_PROC_ADDRESS_LEGACY_STREAM) /* per-thread streams: not supported */
        return CUDA_ERROR_NOT_SUPPORTED;
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    snprintf(second, sizeof second, "%s_v2", symbol);
    *function = dlsym(self, second);
    if (*function == NULL && strstr(symbol, "_v") == NULL) /* a symbol is a name without suffix */
        *function = dlsym(self, symbol);
    dlclose(self);
    if (found != NULL)
        *found =
            *function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* For libnccl.so.2 ----------------------------------------------------------------------------- */
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
    return stream == NULL || stream == CU_STREAM_LEGACY ? NULL : stream->context;
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
        standin_append_wait(to, from, from->enqueued, &from->clock, NULL);
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

STANDIN_EXPORT const struct standin_driver standin_driver = {
    .enqueue = enqueue,
    .memory = standin_memory,
    .is_memory = standin_is_memory,
    .reserve = standin_reserve,
    .device_of = device_of,
    .stream_context = stream_context,
    .capture_of = capture_of,
    .chain = chain,
    .let_run = let_run,
    .current_or_primary = current_or_primary,
    .primary = primary,
    .op_new = standin_op_new,
    .fails = standin_fails,
    .process_rank = standin_process_rank,
    .spend = standin_spend,
    .open_file = standin_open_file,
};
