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

/* Device memory, but for residuals, goes from communicator to communicator by way of a pool. It is
 * never given back to the driver: freeing waits for all that runs on the device. Structures that
 * are pooled begin with an item. A pool is a list of items. */
struct cshim_pool_item {
    struct cshim_pool_item *next;
    int device;
    uint64_t size; /* in the pool's own unit */
};

/* Takes the smallest item of a device that has at least a size out of a pool; NULL if there is
 * none. Thread-safe. */
void *cshim_pool_take(struct cshim_pool_item **pool, int device, uint64_t size);
/* Puts an item into a pool. Makes no call of CUDA. Thread-safe. */
void cshim_pool_give(struct cshim_pool_item **pool, struct cshim_pool_item *item);

/* workspace.c: device memory for the messages of calls under way. Each communicator has a
 * workspace. One group of calls uses it after the other.
 *
 * Calls that are captured become nodes of a CUDA graph, which may be launched at any time, also
 * beside calls that are not captured. So the messages of its calls lie in a workspace of its own,
 * which is as large as they need.
 *
 *     | batch 0 | batch 1 | batch 2 | batch 3 | elements of sampled calls, but not in a graph's |
 */

#define CSHIM_BATCH_BYTES (CSHIM_NCCL_SCRATCH_LIMIT / CSHIM_SEGMENTS_IN_FLIGHT)
/* So many of a communicator's calls in one group are sampled at most. */
#define CSHIM_SAMPLES_OF_GROUP 16u
/* A communicator's. */
#define CSHIM_WORKSPACE_BYTES                                                                      \
    (CSHIM_NCCL_SCRATCH_LIMIT + CSHIM_SAMPLES_OF_GROUP * CSHIM_SAMPLE_GATHERED_BYTES)

struct cshim_workspace {
    struct cshim_pool_item item; /* its size: bytes of memory */
    CUdeviceptr memory;
    CUevent idle;                            /* recorded behind the last group of calls */
    bool used;                               /* whether `idle` has been recorded */
    CUevent steps[CSHIM_SEGMENTS_IN_FLIGHT]; /* behind the latest step of each batch */
    CUstream kernels; /* of a graph's calls, or NULL: a stream that has been captured stays so until
                         the program ends the capture */
    uint32_t *fault;  /* kernels describe a wrong message here; this is its address on the host, */
    uint32_t *fault_device;            /* and this is the device's */
    struct cshim_sample_slot *samples; /* made when a rank 0 first uses it; or NULL */
};

/* Takes a workspace of at least so many bytes that is free on the communicator's device, or makes
 * one. The communicator's context is current. Returns NULL, and why, if there is no memory. */
struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm, uint64_t bytes,
                                             char why[CSHIM_CUDA_WHY_MAX]);
/* Makes no call of CUDA: batches may still be under way. */
void cshim_workspace_give(struct cshim_workspace *workspace);

/* A workspace for captured calls: that of the communicator's captured calls before, if the graph is
 * the same one and there are enough bytes, else a new one. The graph gives it back when it ends.
 * Returns NULL after an error message if there is none to be had. */
struct cshim_workspace *cshim_workspace_of_graph(struct cshim_nccl_comm *comm,
                                                 cuuint64_t capture_id, CUgraph graph,
                                                 uint64_t bytes);

/* The stream for kernels of the graph that has the workspace, made at the first call. Returns NULL
 * after an error message. */
CUstream cshim_workspace_stream(const struct cshim_nccl_comm *comm,
                                struct cshim_workspace *workspace);

/* Has a stream wait until the last group of calls in the workspace is done, whatever stream that
 * was on. The communicator's context is current. */
CUresult cshim_workspace_await(const struct cshim_workspace *workspace, CUstream stream);

#endif
