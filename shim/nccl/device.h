/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a communicator: its CUDA context, errors, and memory that outlives
 * communicators. */
#ifndef CSHIM_NCCL_DEVICE_H
#define CSHIM_NCCL_DEVICE_H

#include "shim/nccl/communicator.h"

/* Opens CUDA and keeps the primary context of the communicator's device. Does nothing if that was
 * done. Returns false, and why, if it cannot be done. */
bool cshim_device_open(struct cshim_nccl_comm *comm, char *why, size_t size);

/* While a scope lasts, the communicator's context is current, which stream 0 and allocations need,
 * and allocating and waiting do not break the captures of other threads. `result` tells whether the
 * context is current: at the end of a process CUDA may be gone. The scope ends with the block that
 * declares it:
 *
 *     CSHIM_SCOPE scope = cshim_device_enter(comm);
 */
struct cshim_scope {
    const struct cshim_cuda *cuda;
    CUresult result;
    bool relaxed;
    CUstreamCaptureMode mode;
};
#define CSHIM_SCOPE __attribute__((cleanup(cshim_device_leave))) struct cshim_scope
struct cshim_scope cshim_device_enter(const struct cshim_nccl_comm *comm);
void cshim_device_leave(struct cshim_scope *scope);

/* Whether an event has happened; asking breaks no thread's capture. */
bool cshim_device_happened(const struct cshim_nccl_comm *comm, CUevent event);

/* An error of the driver as one of NCCL. Logs it as an error about `what`. */
ncclResult_t cshim_device_check(const struct cshim_nccl_comm *comm, CUresult result,
                                const char *what);

/* Identifies the machine that this process is on. NCCL_HOSTID, where set, tells machines apart, as
 * it does for NCCL. Otherwise the kernel's id of this boot does: containers of one machine share
 * it. */
uint64_t cshim_device_host(void);

/* Device memory goes from communicator to communicator by way of a pool. It is never given back to
 * the driver: freeing waits for all that runs on the device. Structures that are pooled begin with
 * an item. A pool is a list of items. */
struct cshim_pool_item {
    struct cshim_pool_item *next;
    int device;
    int ranks; /* of the largest communicator that can use it */
};

/* Takes an item that the communicator can use out of a pool; NULL if there is none. Thread-safe. */
void *cshim_pool_take(struct cshim_pool_item **pool, const struct cshim_nccl_comm *comm);
/* Puts an item into a pool. Makes no call of CUDA. Thread-safe. */
void cshim_pool_give(struct cshim_pool_item **pool, struct cshim_pool_item *item);

#endif
