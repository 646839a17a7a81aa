/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: initialisation, devices, contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/standin/cuda_internal.h"

enum { DEVICES_MAX = 16, STACK_MAX = 64, PROCESSORS = 4 };

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t standin_progress = PTHREAD_COND_INITIALIZER;
_Thread_local bool standin_in_callback;

static pid_t initialised; /* process that called cuInit; 0: none */
static CUcontext primaries[DEVICES_MAX];
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

void *standin_zeros(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

long standin_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtol(text, NULL, 10) : otherwise;
}

int standin_device_count(void)
{
    const long count = standin_setting("STANDIN_DEVICES", 4);
    return count < 0 ? 0 : count > DEVICES_MAX ? DEVICES_MAX : (int)count;
}

CUresult standin_enter(const char *name)
{
    int code;
    if (standin_fails(name, &code))
        return (CUresult)code;
    if (initialised != getpid()) /* also after a fork, as with the real driver */
        return CUDA_ERROR_NOT_INITIALIZED;
    if (standin_in_callback) {
        fprintf(stderr, "standin libcuda: %s called from a host function or a destructor\n", name);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    return CUDA_SUCCESS;
}

CUcontext standin_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult standin_current_state(CUcontext *context)
{
    *context = standin_current();
    if (*context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->magic == STANDIN_CONTEXT
               ? __atomic_load_n(&(*context)->error, __ATOMIC_ACQUIRE)
               : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void standin_context_fail(CUcontext context, CUresult error)
{
    pthread_mutex_lock(&standin_lock);
    if (context->error == CUDA_SUCCESS)
        __atomic_store_n(&context->error, error, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&standin_progress);
    pthread_mutex_unlock(&standin_lock);
}

STANDIN_EXPORT CUresult cuInit(unsigned int flags)
{
    int code;
    if (standin_fails(__func__, &code))
        return (CUresult)code;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (standin_device_count() == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (initialised != 0 && initialised != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    initialised = getpid();
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetCount(int *count)
{
    STANDIN_ENTER();
    *count = standin_device_count();
    return CUDA_SUCCESS;
}

static bool is_device(CUdevice device)
{
    return device >= 0 && device < standin_device_count();
}

STANDIN_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    STANDIN_ENTER();
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                             CUdevice device)
{
    STANDIN_ENTER();
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (attribute != CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) {
        fprintf(stderr, "standin libcuda: cuDeviceGetAttribute does not know attribute %d\n",
                (int)attribute);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *value = PROCESSORS;
    return CUDA_SUCCESS;
}

/* Contexts ------------------------------------------------------------------------------------- */
static CUcontext context_new(int device)
{
    CUcontext context = standin_zeros(sizeof *context);
    context->magic = STANDIN_CONTEXT;
    context->device = device;
    context->legacy = standin_stream_new(context, CU_STREAM_DEFAULT);
    return context;
}

STANDIN_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    STANDIN_ENTER();
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    if (primaries[device] == NULL)
        primaries[device] = context_new(device);
    primaries[device]->magic = STANDIN_CONTEXT;
    primaries[device]->retained++;
    *context = primaries[device];
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    STANDIN_ENTER();
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&standin_lock);
    CUcontext context = primaries[device];
    const bool held = context != NULL && context->retained > 0;
    if (held && --context->retained == 0) {
        standin_context_wait(context);
        context->magic = STANDIN_DEAD;
        primaries[device] = NULL;
    }
    pthread_mutex_unlock(&standin_lock);
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult push(CUcontext context)
{
    if (context == NULL || context->magic != STANDIN_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == STACK_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    STANDIN_ENTER();
    return push(context);
}

STANDIN_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    STANDIN_ENTER();
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    STANDIN_ENTER();
    depth -= depth > 0;
    return context == NULL ? CUDA_SUCCESS : push(context);
}

STANDIN_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    STANDIN_ENTER();
    *context = standin_current();
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuCtxSynchronize(void)
{
    STANDIN_ENTER();
    CUcontext context;
    STANDIN_CHECK(standin_current_state(&context));
    STANDIN_CHECK(standin_unsafe());
    pthread_mutex_lock(&standin_lock);
    CUresult status = standin_context_wait(context);
    pthread_mutex_unlock(&standin_lock);
    return status;
}
