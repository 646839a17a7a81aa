/* SPDX-License-Identifier: Apache-2.0 */
/* A call as the program made it, and what policy and planner need to know of it. */
#ifndef CSHIM_NCCL_DESCRIBE_H
#define CSHIM_NCCL_DESCRIBE_H

#include "shim/nccl/device.h"

/* The elements of a sampled call that are compared (sample.h). */
struct cshim_nccl_sample {
    uint32_t length; /* elements of each rank; 0: the call is not sampled */
    uint32_t ranks;  /* whose elements are compared: all, or rank 0 alone */
    bool is_scaled;  /* by a factor of each rank */
    bool is_average;
    enum cshim_dtype dtype;
    uint64_t block;                 /* bytes from rank to rank */
    uint64_t first;                 /* the first element, in the buffers */
    CUdeviceptr memory;             /* where the elements are gathered */
    struct cshim_sample_slot *slot; /* where rank 0 compares them; or NULL */
};

struct cshim_nccl_call {
    ncclComm_t handle;
    struct cshim_nccl_comm *comm; /* a reference is held */
    enum cshim_collective collective;
    const void *send;
    void *receive;
    size_t count; /* as the program gave it */
    ncclDataType_t datatype;
    ncclRedOp_t op;
    cudaStream_t stream;
    struct cshim_premul premul; /* a factor of 1, and no type, for other operations */
    cuuint64_t capture_id;      /* of the graph that the call is captured into, or 0 */
    CUgraph graph;

    /* How the call is reissued: batch.c fills it in. */
    struct cshim_plan plan;
    struct cshim_workspace *workspace; /* the communicator's, or the graph's */
    struct cshim_residual *residual;   /* or NULL */
    uint32_t sequence;                 /* of the communicator's compressed calls, from 1 */
    uint64_t segments_done;            /* that are enqueued */
    bool in_batch;                     /* the next one belongs to the batch that is being made */
    struct cshim_timeline *timeline;   /* where its times are kept, or NULL; ... */
    uint32_t timed;                    /* ... and which of the calls there it is */
    struct cshim_nccl_sample sample;
};

/* The elements that the plan is of: those of the largest of the call's buffers. */
uint64_t cshim_call_elements(const struct cshim_nccl_call *call);

/* The facts that policy and plan depend on. They are equal on all ranks. */
struct cshim_call cshim_call_facts(const struct cshim_nccl_call *call);

/* Makes NCCL's own call. */
ncclResult_t cshim_call_natively(const struct cshim_nccl_call *call);

/* feedback.c: error_feedback: what rounding took from each element is kept on the device and added
 * to the next call of the same buffer.
 *
 * A residual belongs to a communicator and to a buffer, its count and its type. Whether a rank has
 * one changes only the numbers that it sends: a rank without memory for it goes on without. The
 * buffer may hold another tensor by now: the kernels add no more than a step of a residual. */

/* Addresses are those of float32 elements on the device. They are zeros at first. */
struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    uint64_t bytes;      /* of memory, against the policy's limit */
    CUdeviceptr sent;    /* of the elements this rank has encoded, by their place in the buffer */
    CUdeviceptr reduced; /* of the sums it has encoded as their owner, chunk behind chunk */
    struct cshim_residual *next;
};

/* The residual of a call's buffer, made if there is none. Returns NULL without memory, and for a
 * new buffer of a captured call. */
struct cshim_residual *cshim_feedback_find(const struct cshim_nccl_call *call);

/* Frees the residuals of a communicator that ends. Its context is current. */
void cshim_feedback_free(struct cshim_nccl_comm *comm);

#endif
