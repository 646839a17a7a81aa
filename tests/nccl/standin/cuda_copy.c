/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: copies and fills. */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/cuda_internal.h"

/* A copy between host and device memory, or within one of them, or a fill. */
struct transfer {
    const char *name;
    CUcontext context;
    uintptr_t to, from;
    size_t bytes;
    uint32_t value;
    unsigned width; /* width of a fill in bytes; 0: a copy */
    void *staged;   /* bytes of pageable memory, copied at the call */
};

/* Returns the address at which the stream's thread may access the memory, or NULL if the access is
 * refused. */
static void *bytes_of(const struct transfer *transfer, uintptr_t address, bool write)
{
    const void *pointer = (const void *)address;
    return standin_is_memory(pointer) || standin_is_device_address(pointer)
               ? standin_memory(transfer->context->device, pointer, transfer->bytes, write,
                                transfer->name)
               : (void *)address;
}

static CUresult run_transfer(void *payload, uint64_t ticket)
{
    const struct transfer *transfer = payload;
    (void)ticket;
    uint8_t *to = bytes_of(transfer, transfer->to, true);
    if (to == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (transfer->width == 0) {
        const void *from =
            transfer->staged != NULL ? transfer->staged : bytes_of(transfer, transfer->from, false);
        if (from == NULL)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        memmove(to, from, transfer->bytes);
    }
    for (size_t at = 0; transfer->width != 0 && at < transfer->bytes; at += transfer->width)
        memcpy(to + at, &transfer->value, transfer->width);
    return CUDA_SUCCESS;
}

static void release_transfer(void *payload)
{
    free(((struct transfer *)payload)->staged);
    free(payload);
}

/* Returns true for host memory that is not pinned: copies read it at the call, and write it before
 * the call returns. */
static bool is_pageable(uintptr_t address)
{
    return !standin_is_memory((const void *)address) &&
           !standin_is_device_address((const void *)address);
}

/* A copy from pageable memory returns when the source may be reused: the driver has staged the
 * bytes, and the device may get them later. Copies up to this size travel with the commands of the
 * stream, so the device has them before later kernels. */
enum { SMALL_COPY = 64 << 10 };

static bool arrives_later(const struct transfer *transfer)
{
    return transfer->width == 0 && transfer->bytes > SMALL_COPY && is_pageable(transfer->from) &&
           standin_is_device_address((const void *)transfer->to);
}

/* Enqueues a transfer; with `behind_all`, first waits for the stream. The lock is held. */
static CUresult take_in(CUstream stream, struct transfer *transfer, bool behind_all)
{
    const CUresult status = behind_all ? standin_stream_synchronize(stream) : CUDA_SUCCESS;
    if (status == CUDA_SUCCESS)
        return standin_push(
            stream, standin_op_new(transfer->name, run_transfer, release_transfer, transfer));
    release_transfer(transfer);
    return status;
}

/* Starts a transfer. Waits for its end if it writes pageable memory, or if `wait` is true, unless
 * arrives_later() is true of it. */
static CUresult start(CUstream handle, struct transfer wanted, bool wait)
{
    CUstream stream;
    CUresult status = standin_stream_of(handle, &stream);
    if (status != CUDA_SUCCESS || wanted.bytes == 0)
        return status;
    struct transfer *transfer = standin_zeros(sizeof *transfer);
    *transfer = wanted;
    transfer->context = stream->context;
    if (transfer->width == 0 && is_pageable(transfer->from)) {
        transfer->staged = standin_zeros(transfer->bytes);
        memcpy(transfer->staged, (const void *)transfer->from, transfer->bytes);
    }
    const bool is_late = wait && arrives_later(transfer);
    wait = !is_late && (wait || is_pageable(transfer->to));
    pthread_mutex_lock(&standin_lock);
    if (wait && stream->capture != NULL) {
        standin_capture_invalidate(stream->capture);
        status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        release_transfer(transfer);
    } else {
        status = take_in(stream, transfer, is_late);
    }
    if (status == CUDA_SUCCESS && wait)
        status = standin_wait(stream, stream->enqueued, &stream->clock);
    pthread_mutex_unlock(&standin_lock);
    return status;
}

#define COPY(to, from)                                                                             \
    ((struct transfer){__func__, NULL, (uintptr_t)(to), (uintptr_t)(from), bytes, 0, 0, NULL})
#define FILL(to, width)                                                                            \
    ((struct transfer){__func__, NULL, (uintptr_t)(to), 0, count * (width), value, width, NULL})

STANDIN_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                             CUstream stream)
{
    STANDIN_ENTER();
    return start(stream, COPY(to, from), false);
}

STANDIN_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                             CUstream stream)
{
    STANDIN_ENTER();
    return start(stream, COPY(to, from), false);
}

STANDIN_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream)
{
    STANDIN_ENTER();
    return start(stream, COPY(to, from), false);
}

STANDIN_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    STANDIN_ENTER();
    STANDIN_CHECK(standin_unsafe());
    return start(NULL, COPY(to, from), true);
}

STANDIN_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    STANDIN_ENTER();
    STANDIN_CHECK(standin_unsafe());
    return start(NULL, COPY(to, from), true);
}

STANDIN_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                        CUstream stream)
{
    STANDIN_ENTER();
    return start(stream, FILL(to, 1u), false);
}

STANDIN_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                         CUstream stream)
{
    STANDIN_ENTER();
    return to % 4 == 0 ? start(stream, FILL(to, 4u), false) : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    STANDIN_ENTER();
    STANDIN_CHECK(standin_unsafe());
    return start(NULL, FILL(to, 1u), true);
}
