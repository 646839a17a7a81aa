/* SPDX-License-Identifier: Apache-2.0 */
/* A call as the program made it, its description for policy and planner, and PreMulSum operations.
 */
#ifndef CSHIM_NCCL_DESCRIBE_H
#define CSHIM_NCCL_DESCRIBE_H

#include "shim/core/operation.h"
#include "shim/nccl/device.h"

/* Operations made by ncclRedOpCreatePreMulSum: sums whose elements are first multiplied by a factor
 * of each rank. NCCL reuses the handles of destroyed operations. All functions are thread-safe. */

struct cshim_premul {
    double factor;         /* factor of this rank; 1 if factor_at is set or no codec has the type */
    uint64_t scalar;       /* the factor as `datatype`, for making an equal operation */
    const void *factor_at; /* device address of the factor, or NULL */
    ncclDataType_t datatype; /* element type; NCCL refuses calls with another */
};

/* Replaces ncclRedOpCreatePreMulSum: makes the operation and records its factor. */
ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm);

/* Copies an operation to *premul. If ncclRedOpCreatePreMulSum did not make the operation, leaves
 * *premul unchanged. */
void cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul);

/* Replaces ncclRedOpDestroy: destroys the operation when no call holds it any more. Operations not
 * made by ncclRedOpCreatePreMulSum are left to NCCL. */
ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm);
/* Keep an operation that a recorded call needs: `hold` when the call is recorded, `release` when it
 * has been made. Do nothing for operations not made by ncclRedOpCreatePreMulSum. */
void cshim_premul_hold(ncclRedOp_t op, ncclComm_t comm);
void cshim_premul_release(ncclRedOp_t op, ncclComm_t comm);
/* Forgets the operations of a communicator that ends. */
void cshim_premul_forget(ncclComm_t comm);

/* Elements of a sampled call that rank 0 compares (sample.c). */
struct cshim_nccl_sample {
    uint32_t length; /* number of elements of each rank; 0: the call is not sampled */
    uint32_t ranks;  /* number of ranks whose elements are compared: all, or rank 0 alone */
    bool is_scaled;  /* each rank's elements are multiplied by its factor */
    bool is_average;
    enum cshim_dtype dtype;
    uint64_t block;                 /* bytes of each rank's block */
    uint64_t bytes_wire;            /* bytes that all ranks together send to gather the blocks */
    uint64_t first;                 /* index of the first element in the buffers */
    CUdeviceptr memory;             /* device memory for the blocks of all ranks */
    struct cshim_sample_slot *slot; /* host memory for the comparison (rank 0), or NULL */
};

/* The candidate that choose.c has chosen for a call. */
struct cshim_chosen {
    struct cshim_class *class; /* NULL: no candidate of a class was chosen */
    unsigned candidate;
    bool is_sampled;
};

struct cshim_nccl_call {
    ncclComm_t handle;
    struct cshim_nccl_comm *comm; /* holds a reference */
    enum cshim_collective collective;
    const void *send;
    void *receive;
    size_t count; /* number of elements as the program passed it */
    ncclDataType_t datatype;
    ncclRedOp_t op;
    int root; /* root of a broadcast, otherwise 0 */
    cudaStream_t stream;
    struct cshim_premul premul; /* for other operations: factor 1, datatype ncclNumTypes */
    cuuint64_t capture_id;      /* id of the capture into a CUDA graph; 0: not captured */
    CUgraph graph;              /* graph into which the call is captured */

    /* Fields that are set while the calls of a group run (batch.c). */
    struct cshim_plan plan;
    struct cshim_role role;
    struct cshim_chosen chosen;
    struct cshim_workspace *workspace; /* workspace of the communicator or of the graph */
    uint64_t batch_bytes;              /* bytes of the workspace for each batch */
    struct cshim_residual *residual;   /* residual of the call's buffer, or NULL */
    uint32_t sequence;              /* number among the communicator's compressed calls, from 1 */
    uint64_t segments_done;         /* number of segments that were put in a batch */
    bool in_batch;                  /* the batch being filled has a segment of this call */
    struct cshim_timed_call *timed; /* the call's entry in its timeline, or NULL */
    struct cshim_nccl_sample sample;
};

/* Returns true if this rank contributes elements: in a broadcast the root only. */
bool cshim_call_gives(const struct cshim_nccl_call *call);

/* Returns the number of elements to plan for: that of the larger of the call's buffers. */
uint64_t cshim_call_elements(const struct cshim_nccl_call *call);

/* Returns the properties of a call that policy and plan depend on, which are equal on all ranks. */
struct cshim_call cshim_call_facts(const struct cshim_nccl_call *call);

/* Returns CSHIM_REASON_COMPRESS if the rules compress a call, or why not. While the number of nodes
 * is unknown, returns CSHIM_REASON_COMPRESS if there is a number of nodes on which the rules
 * compress the call. Equal on all ranks. */
enum cshim_reason cshim_call_reason(const struct cshim_nccl_call *call);

/* Passes the call through to NCCL. */
ncclResult_t cshim_call_natively(const struct cshim_nccl_call *call);

#endif
