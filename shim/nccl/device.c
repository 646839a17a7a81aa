/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/device.h"

struct cshim_nccl_process cshim_nccl;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all pools */

bool cshim_device_open(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX])
{
    CUdevice device;
    if (comm->context != NULL)
        return true;
    if (!cshim_cuda_open(why))
        return false;
    CUresult result = cshim_cuda.DeviceGet(&device, comm->device);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.DeviceGetAttribute(&comm->processors,
                                               CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (result == CUDA_SUCCESS)
        result = cshim_cuda.DevicePrimaryCtxRetain(&comm->context, device);
    if (result != CUDA_SUCCESS) {
        comm->context = NULL;
        cshim_cuda_explain("the communicator's device", result, why);
        return false;
    }
    return true;
}

struct cshim_scope cshim_device_enter(const struct cshim_nccl_comm *comm)
{
    struct cshim_scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    scope.result = cshim_cuda.CtxPushCurrent(comm->context);
    if (scope.result == CUDA_SUCCESS)
        cshim_cuda.ThreadExchangeStreamCaptureMode(&scope.mode);
    return scope;
}

void cshim_device_leave(struct cshim_scope *scope)
{
    if (scope->result != CUDA_SUCCESS)
        return;
    cshim_cuda.ThreadExchangeStreamCaptureMode(&scope->mode);
    cshim_cuda.CtxPopCurrent(NULL);
}

CUresult cshim_device_query(CUevent event, CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cshim_cuda.ThreadExchangeStreamCaptureMode(&mode);
    const CUresult result =
        event != NULL ? cshim_cuda.EventQuery(event) : cshim_cuda.StreamQuery(stream);
    cshim_cuda.ThreadExchangeStreamCaptureMode(&mode);
    return result;
}

ncclResult_t cshim_device_check(CUresult result, const char *what)
{
    char why[CSHIM_CUDA_WHY_MAX];
    if (result == CUDA_SUCCESS)
        return ncclSuccess;
    cshim_cuda_explain(what, result, why);
    cshim_log(CSHIM_LOG_ERROR, "%s", why);
    return ncclUnhandledCudaError;
}

void *cshim_pool_take(struct cshim_pool_item **pool, int device, uint64_t size)
{
    pthread_mutex_lock(&lock);
    struct cshim_pool_item **best = NULL;
    for (struct cshim_pool_item **link = pool; *link != NULL; link = &(*link)->next)
        if ((*link)->device == device && (*link)->size >= size &&
            (best == NULL || (*link)->size < (*best)->size))
            best = link;
    struct cshim_pool_item *item = best != NULL ? *best : NULL;
    if (item != NULL)
        *best = item->next;
    pthread_mutex_unlock(&lock);
    return item;
}

void cshim_pool_give(struct cshim_pool_item **pool, struct cshim_pool_item *item)
{
    pthread_mutex_lock(&lock);
    item->next = *pool;
    *pool = item;
    pthread_mutex_unlock(&lock);
}
