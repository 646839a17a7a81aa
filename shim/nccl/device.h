/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a communicator: its CUDA context, CUDA's errors, and device memory that outlives
 * communicators. Thread-safe for different communicators; the pools are thread-safe. */
#ifndef CSHIM_NCCL_DEVICE_H
#define CSHIM_NCCL_DEVICE_H

#include "shim/core/sample.h"
#include "shim/nccl/communicator.h"

/* Finds the functions of the CUDA driver, which NCCL has loaded, and retains the primary context of
 * the communicator's device, unless that was done before. Returns false on an error, and the reason
 * in `why`. */
bool cshim_device_open(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX]);

/* Makes the communicator's context current, which stream 0 and allocations need, and the thread's
 * capture mode relaxed, so that allocating and waiting do not break captures of other threads. Both
 * are restored at the end of the block that declares the scope:
 *     CSHIM_SCOPE scope = cshim_device_enter(comm);
 * `result` is an error if the context is not current: when a process exits, CUDA may be gone. */
struct cshim_scope {
    CUresult result;
    CUstreamCaptureMode mode;
};
#define CSHIM_SCOPE __attribute__((cleanup(cshim_device_leave))) struct cshim_scope
struct cshim_scope cshim_device_enter(const struct cshim_nccl_comm *comm);
void cshim_device_leave(struct cshim_scope *scope);

/* Returns CUDA_SUCCESS if an event has completed or, if it is NULL, all work on a stream;
 * CUDA_ERROR_NOT_READY if not, or an error. Does not break any thread's capture. */
CUresult cshim_device_query(CUevent event, CUstream stream);

/* Returns ncclSuccess or, if `result` is an error of the driver, ncclUnhandledCudaError after
 * logging an error message that names `what`. */
ncclResult_t cshim_device_check(CUresult result, const char *what);

/* Pools keep device memory, except residuals, for the next communicator. That memory is never
 * freed, because cuMemFree waits for all work on the device. A pool is a list of items; each pooled
 * struct begins with an item. */
struct cshim_pool_item {
    struct cshim_pool_item *next;
    int device;
    uint64_t size; /* bytes, or another unit that the pool's users share */
};

/* Removes from a pool the smallest item of a device with at least `size`, and returns it; NULL if
 * there is none. Thread-safe. */
void *cshim_pool_take(struct cshim_pool_item **pool, int device, uint64_t size);
/* Adds an item to a pool. Does not call CUDA. Thread-safe. */
void cshim_pool_give(struct cshim_pool_item **pool, struct cshim_pool_item *item);

#endif
