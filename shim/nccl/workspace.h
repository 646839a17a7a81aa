/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for the messages of calls under way. Each communicator has a workspace. One batch
 * of segments uses it after the other.
 *
 * Calls that are captured become nodes of a CUDA graph, which may be launched at any time, also
 * beside calls that are not captured. So the messages of its calls lie in a workspace of its own.
 *
 *     | messages of a batch: CSHIM_WORKSPACE_BYTES | elements of sampled calls |
 */
#ifndef CSHIM_NCCL_WORKSPACE_H
#define CSHIM_NCCL_WORKSPACE_H

#include "shim/core/sample.h"
#include "shim/nccl/device.h"

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
    CUdeviceptr fault_device;          /* and this is the device's */
    struct cshim_sample_slot *samples; /* made when a rank 0 first uses it; or NULL */
};

/* Takes a workspace that is free on the communicator's device, or makes one. The communicator's
 * context is current. Returns NULL, and why, if there is no memory. */
struct cshim_workspace *cshim_workspace_take(const struct cshim_nccl_comm *comm, char *why,
                                             size_t size);
/* Makes no call of CUDA: batches may still be under way. */
void cshim_workspace_give(struct cshim_workspace *workspace);

/* The workspace of a captured call: that of its communicator's last captured call if the graph is
 * the same one, else a new one. The graph gives it back when it ends. Returns NULL after an error
 * message if there is none to be had. */
struct cshim_workspace *cshim_workspace_of_graph(struct cshim_nccl_comm *comm,
                                                 cuuint64_t capture_id, CUgraph graph);

/* Has a stream wait until the last batch in the workspace is done, whatever stream that was on. The
 * communicator's context is current. */
CUresult cshim_workspace_await(const struct cshim_workspace *workspace,
                               const struct cshim_nccl_comm *comm, CUstream stream);

#endif
