/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a communicator: its CUDA context, errors, and memory that outlives
 * communicators. */
#ifndef CSHIM_NCCL_DEVICE_H
#define CSHIM_NCCL_DEVICE_H

#include "shim/core/sample.h"
#include "shim/nccl/communicator.h"

/* Opens CUDA and keeps the primary context of the communicator's device. Does nothing if that was
 * done. Returns false, and why, if it cannot be done. */
bool cshim_device_open(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX]);

/* While a scope lasts, the communicator's context is current, which stream 0 and allocations need,
 * and allocating and waiting do not break the captures of other threads. `result` tells whether the
 * context is current: at the end of a process CUDA may be gone. The scope ends with the block that
 * declares it: CSHIM_SCOPE scope = cshim_device_enter(comm); */
struct cshim_scope {
    CUresult result;
    CUstreamCaptureMode mode;
};
#define CSHIM_SCOPE __attribute__((cleanup(cshim_device_leave))) struct cshim_scope
struct cshim_scope cshim_device_enter(const struct cshim_nccl_comm *comm);
void cshim_device_leave(struct cshim_scope *scope);

/* Whether an event has happened or, if it is NULL, all work on a stream: CUDA_SUCCESS,
 * CUDA_ERROR_NOT_READY or an error. Asking breaks no thread's capture. */
CUresult cshim_device_query(CUevent event, CUstream stream);

/* An error of the driver as one of NCCL. Logs it as an error about `what`. */
ncclResult_t cshim_device_check(CUresult result, const char *what);

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

/* workspace.c: device memory for the messages of calls under way. Each communicator has a
 * workspace. One batch of segments uses it after the other.
 *
 * Calls that are captured become nodes of a CUDA graph, which may be launched at any time, also
 * beside calls that are not captured. So the messages of its calls lie in a workspace of its own.
 *
 *     | messages of a batch: CSHIM_WORKSPACE_BYTES | elements of sampled calls |
 */

/* The planner's limit, and what hierarchical leaves over, of up to CSHIM_LEVELS_RANKS ranks. */
#define CSHIM_WORKSPACE_BYTES (CSHIM_NCCL_SCRATCH_LIMIT + ((uint64_t)8 << 20))
#define CSHIM_LEVELS_RANKS 1024
/* So many of a communicator's calls in one group are sampled at most. */
#define CSHIM_SAMPLES_OF_GROUP 16u

struct cshim_workspace {
    struct cshim_pool_item item;
    CUdeviceptr memory;
    CUevent idle;    /* recorded behind the last batch */
    bool used;       /* whether `idle` has been recorded */
    uint32_t *fault; /* kernels describe a wrong message here; this is its address on the host, */
    uint32_t *fault_device;            /* and this is the device's */
    struct cshim_sample_slot *samples; /* made when a rank 0 first uses it; or NULL */
};

/* Takes a workspace that is free on the communicator's device, or makes one. The communicator's
 * context is current. Returns NULL, and why, if there is no memory. */
struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm,
                                             char why[CSHIM_CUDA_WHY_MAX]);
/* Makes no call of CUDA: batches may still be under way. */
void cshim_workspace_give(struct cshim_workspace *workspace);

/* The workspace of a captured call: that of its communicator's last captured call if the graph is
 * the same one, else a new one. The graph gives it back when it ends. Returns NULL after an error
 * message if there is none to be had. */
struct cshim_workspace *cshim_workspace_of_graph(struct cshim_nccl_comm *comm,
                                                 cuuint64_t capture_id, CUgraph graph);

/* Has a stream wait until the last batch in the workspace is done, whatever stream that was on. The
 * communicator's context is current. */
CUresult cshim_workspace_await(const struct cshim_workspace *workspace, CUstream stream);

#endif
