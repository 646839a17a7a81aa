/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces: device memory for the messages of calls in progress. Each communicator that
 * compresses has a workspace, which its groups of calls use one after the other.
 *
 * A CUDA graph with captured calls may be launched at any time, also concurrently with calls that
 * are not captured. So each graph has workspaces of its own, at least as large as its calls need.
 *
 *     | batch 0 | batch 1 | batch 2 | batch 3 | elements of sampled calls (not in a graph's) |
 */
#ifndef CSHIM_NCCL_WORKSPACE_H
#define CSHIM_NCCL_WORKSPACE_H

#include "shim/nccl/device.h"

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
    bool used; /* true if `idle` was recorded since the workspace was made, or a graph last acquired
                  or released it */
    CUevent steps[CSHIM_SEGMENTS_IN_FLIGHT]; /* recorded after each batch's latest step, if kernels
                                                have a stream of their own */
    /* Stream for the kernels of a graph's calls, or NULL. Each graph needs its own, because a
     * captured stream stays in capture mode until the program ends the capture. */
    CUstream kernels;
    uint32_t *fault;        /* host address at which kernels describe an unexpected message */
    uint32_t *fault_device; /* device address of `fault` */
    struct cshim_sample_slot *samples; /* NULL until a rank 0 with a report first uses this */
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
