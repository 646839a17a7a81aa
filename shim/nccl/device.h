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

/* workspace.c: device memory for the messages of calls in progress. Each communicator that
 * compresses has a workspace, which its groups of calls use one after the other.
 *
 * A CUDA graph with captured calls may be launched at any time, also concurrently with calls that
 * are not captured. So each graph has workspaces of its own, at least as large as its calls need.
 *
 *     | batch 0 | batch 1 | batch 2 | batch 3 | elements of sampled calls (not in a graph's) |
 */

#define CSHIM_BATCH_BYTES (CSHIM_NCCL_SCRATCH_LIMIT / CSHIM_SEGMENTS_IN_FLIGHT)
/* Maximum number of sampled calls of one communicator in one group. */
#define CSHIM_SAMPLES_OF_GROUP 16u
/* Bytes of a communicator's workspace. */
#define CSHIM_WORKSPACE_BYTES                                                                      \
    (CSHIM_NCCL_SCRATCH_LIMIT + CSHIM_SAMPLES_OF_GROUP * CSHIM_SAMPLE_GATHERED_BYTES)

struct cshim_workspace {
    struct cshim_pool_item item; /* item.size: bytes of `memory` */
    CUdeviceptr memory;
    CUevent idle; /* recorded after the last group of calls */
    bool used; /* true if `idle` was recorded since the workspace was made, or was last acquired or
                  released by a graph */
    CUevent steps[CSHIM_SEGMENTS_IN_FLIGHT]; /* recorded after each batch's latest step, if kernels
                                                have a stream of their own */
    /* Stream for the kernels of a graph's calls, or NULL. Each graph needs its own, because a
     * captured stream stays in capture mode until the program ends the capture. */
    CUstream kernels;
    uint32_t *fault;        /* where kernels describe an unexpected message: host address */
    uint32_t *fault_device; /* device address of `fault` */
    struct cshim_sample_slot *samples; /* made when a rank 0 with a report first uses it; or NULL */
};

/* Acquires an unused workspace of at least `bytes` on the communicator's device, or makes one. The
 * communicator's context must be current. Returns NULL on an error, and the reason in `why`. */
struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm, uint64_t bytes,
                                             char why[CSHIM_CUDA_WHY_MAX]);
/* Releases a workspace to the pool. Does not call CUDA; batches may still be in progress. */
void cshim_workspace_give(struct cshim_workspace *workspace);

/* Returns a workspace for captured calls: that of the communicator's previous captured calls if the
 * graph is the same and it has at least `bytes`, otherwise another. The graph releases it when the
 * graph and its executables are destroyed. Returns NULL on an error, after logging it. */
struct cshim_workspace *cshim_workspace_of_graph(struct cshim_nccl_comm *comm,
                                                 cuuint64_t capture_id, CUgraph graph,
                                                 uint64_t bytes);

/* Returns the stream for the kernels of the graph that has the workspace; makes it at the first
 * call. Returns NULL on an error, after logging it. */
CUstream cshim_workspace_stream(const struct cshim_nccl_comm *comm,
                                struct cshim_workspace *workspace);

/* Makes a stream wait for the last group of calls in the workspace, whatever stream that ran on.
 * The communicator's context must be current. */
CUresult cshim_workspace_await(const struct cshim_workspace *workspace, CUstream stream);

#endif
