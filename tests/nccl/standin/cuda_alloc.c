/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: allocation of device memory, of pinned host memory, and in stream order from pools. */
#include <stdlib.h>

#include "tests/nccl/standin/cuda_internal.h"

struct CUmemPoolHandle_st {
    uint32_t magic;
    int device;
};

/* Sets *context to the current context. Returns an error if there is none, if it has failed or was
 * destroyed, or while a capture forbids the calling function. */
static CUresult current_and_safe(CUcontext *context)
{
    const CUresult status = standin_current_state(context);
    return status == CUDA_SUCCESS ? standin_unsafe() : status;
}

STANDIN_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(current_and_safe(&context));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pointer = standin_memory_new(STANDIN_DEVICE_MEMORY, context, bytes, true, NULL);
    return *pointer != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Waits for all work of the context before a free, as the real driver does: with a kernel that
 * never ends, forever. */
static CUresult wait_for_all(void)
{
    CUcontext context;
    STANDIN_CHECK(current_and_safe(&context));
    pthread_mutex_lock(&standin_lock);
    const CUresult status = standin_context_wait(context);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

STANDIN_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    STANDIN_ENTER();
    STANDIN_CHECK(wait_for_all());
    if (pointer == 0)
        return CUDA_SUCCESS;
    return standin_memory_mark_freed(pointer) && standin_memory_end(pointer, STANDIN_DEVICE_MEMORY)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(current_and_safe(&context));
    if (pointer == NULL || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr memory = standin_memory_new(STANDIN_HOST_MEMORY, context, bytes, true, NULL);
    *pointer = (void *)(uintptr_t)memory;
    return memory != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

STANDIN_EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

STANDIN_EXPORT CUresult cuMemFreeHost(void *pointer)
{
    STANDIN_ENTER();
    STANDIN_CHECK(wait_for_all());
    return standin_memory_end((CUdeviceptr)(uintptr_t)pointer, STANDIN_HOST_MEMORY)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer,
                                                     unsigned int flags)
{
    STANDIN_ENTER();
    if (device == NULL || flags != 0 || !standin_is_memory(pointer) ||
        !standin_memory_is_host(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)pointer; /* unified addresses */
    return CUDA_SUCCESS;
}

/* Pools ---------------------------------------------------------------------------------------- */
STANDIN_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    STANDIN_ENTER();
    if (pool == NULL || properties == NULL ||
        properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
        properties->location.id >= standin_device_count())
        return CUDA_ERROR_INVALID_VALUE;
    *pool = standin_zeros(sizeof **pool);
    **pool = (struct CUmemPoolHandle_st){STANDIN_POOL, properties->location.id};
    return CUDA_SUCCESS;
}

static bool is_pool(CUmemoryPool pool)
{
    return pool != NULL && pool->magic == STANDIN_POOL;
}

/* Allocations stay valid until they are freed, as with the real driver. */
STANDIN_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    STANDIN_ENTER();
    if (!is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    pool->magic = STANDIN_DEAD;
    return CUDA_SUCCESS;
}

static CUresult run_begin(void *payload, uint64_t ticket)
{
    (void)ticket;
    standin_memory_begin((CUdeviceptr)(uintptr_t)payload);
    return CUDA_SUCCESS;
}

static CUresult run_end(void *payload, uint64_t ticket)
{
    (void)ticket;
    return standin_memory_end((CUdeviceptr)(uintptr_t)payload, STANDIN_POOL_MEMORY)
               ? CUDA_SUCCESS
               : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* Sets *stream. Returns an error if the handle is invalid, or the stream is captured: allocation
 * nodes are not supported here. */
static CUresult ordered_stream(CUstream handle, CUstream *stream)
{
    const CUresult status = standin_stream_of(handle, stream);
    return status != CUDA_SUCCESS       ? status
           : (*stream)->capture != NULL ? CUDA_ERROR_NOT_SUPPORTED
                                        : CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes,
                                                CUmemoryPool pool, CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(ordered_stream(handle, &stream));
    if (pointer == NULL || bytes == 0 || !is_pool(pool) || pool->device != stream->context->device)
        return CUDA_ERROR_INVALID_VALUE;
    *pointer = standin_memory_new(STANDIN_POOL_MEMORY, stream->context, bytes, false, pool);
    if (*pointer == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return standin_enqueue(
        stream, standin_op_new("allocation", run_begin, NULL, (void *)(uintptr_t)*pointer));
}

STANDIN_EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(ordered_stream(handle, &stream));
    if (!standin_memory_mark_freed(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    return standin_enqueue(stream,
                           standin_op_new("free", run_end, NULL, (void *)(uintptr_t)pointer));
}
