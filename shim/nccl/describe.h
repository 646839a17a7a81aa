/* SPDX-License-Identifier: Apache-2.0 */
/* A call as the program made it, what policy and planner need to know of it, and the operations,
 * groups and batches of calls. */
#ifndef CSHIM_NCCL_DESCRIBE_H
#define CSHIM_NCCL_DESCRIBE_H

#include "shim/nccl/device.h"

/* The operations that ncclRedOpCreatePreMulSum makes: sums whose elements are first
 * multiplied by a scalar of each rank. NCCL uses the handles of destroyed operations again. All
 * functions are thread-safe. */

struct cshim_premul {
    double factor;
    uint64_t scalar;         /* the factor's bytes in `datatype`, for an operation made of it */
    const void *factor_at;   /* on the device; NULL: `factor` is the scalar */
    ncclDataType_t datatype; /* of the calls: NCCL refuses others */
};

/* ncclRedOpCreatePreMulSum. */
ncclResult_t cshim_premul_create(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t comm);

/* Leaves `premul` as it is if the operation was not made by ncclRedOpCreatePreMulSum. */
void cshim_premul_find(ncclRedOp_t op, ncclComm_t comm, struct cshim_premul *premul);

/* ncclRedOpDestroy: at the end of a group, whose calls may still need the operation. */
ncclResult_t cshim_premul_destroy(ncclRedOp_t op, ncclComm_t comm, const void *group);

/* A group ends: destroys its operations, or only those of a communicator, and returns what NCCL
 * says of the last one. With NULL, a communicator ends, and its operations with it. */
ncclResult_t cshim_premul_end(const void *group, ncclComm_t comm);

/* The elements of a sampled call that are compared (sample.c). */
struct cshim_nccl_sample {
    uint32_t length; /* elements of each rank; 0: the call is not sampled */
    uint32_t ranks;  /* whose elements are compared: all, or rank 0 alone */
    bool is_scaled;  /* by a factor of each rank */
    bool is_average;
    enum cshim_dtype dtype;
    uint64_t block;                 /* bytes from rank to rank */
    uint64_t bytes_wire;            /* that all ranks together send */
    uint64_t first;                 /* the first element, in the buffers */
    CUdeviceptr memory;             /* where the elements are gathered */
    struct cshim_sample_slot *slot; /* where rank 0 compares them; or NULL */
};

/* How a call was chosen (choose.c). */
struct cshim_chosen {
    struct cshim_class *class; /* NULL: the call is not counted among those of a class */
    unsigned candidate;
    bool is_sampled;
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
    int root; /* of a broadcast */
    cudaStream_t stream;
    struct cshim_premul premul; /* a factor of 1, and no type, for other operations */
    cuuint64_t capture_id;      /* of the graph that the call is captured into, or 0 */
    CUgraph graph;

    /* How the call is reissued: batch.c fills it in. */
    struct cshim_plan plan;
    struct cshim_chosen chosen;
    struct cshim_workspace *workspace; /* the communicator's, or the graph's */
    uint64_t batch_bytes;              /* of the workspace, for each batch */
    struct cshim_residual *residual;   /* or NULL */
    uint32_t sequence;                 /* of the communicator's compressed calls, from 1 */
    uint64_t segments_done;            /* that are in a batch */
    bool in_batch;                     /* the latest one is in the batch that is being made */
    struct cshim_timed_call *timed;    /* where its times are kept, or NULL */
    struct cshim_nccl_sample sample;
};

/* Whether this rank has elements for others: of a broadcast only the root has. */
bool cshim_call_gives(const struct cshim_nccl_call *call);

/* The elements that the plan is of: those of the largest of the call's buffers. */
uint64_t cshim_call_elements(const struct cshim_nccl_call *call);

/* The facts that policy and plan depend on. They are equal on all ranks. */
struct cshim_call cshim_call_facts(const struct cshim_nccl_call *call);

/* Whether the rules compress a call, or why they do not. As long as it is not known how many nodes
 * hold the ranks, they do if they do so on any number. Equal on all ranks. */
enum cshim_reason cshim_call_reason(const struct cshim_nccl_call *call);

/* Makes NCCL's own call. */
ncclResult_t cshim_call_natively(const struct cshim_nccl_call *call);

/* group.c: NCCL's groups. What a program calls inside a group may come before other work on its
 * stream. So nothing is launched before the end of the outermost group, and then first what NCCL
 * does itself. The state is the thread's, as NCCL's is. */

/* ncclGroupStart, ncclGroupEnd, ncclGroupSimulateEnd. */
ncclResult_t cshim_group_start(void);
ncclResult_t cshim_group_end(void);
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info);

/* Adds a call to the group, or runs it where there is none. Takes the call's reference over. */
ncclResult_t cshim_group_add(const struct cshim_nccl_call *call);

/* ncclRedOpDestroy. */
ncclResult_t cshim_group_destroy_op(ncclRedOp_t op, ncclComm_t comm);

/* Adds a communicator that is being made to those that are known, at the end of the group or at
 * once. Takes the reference over; NULL is an error. Returns `status`, of NCCL, if all is well. */
ncclResult_t cshim_group_expect(struct cshim_nccl_comm *comm, ncclResult_t status);

/* batch.c: runs the calls that wait at the end of a group, in their order. Some are made natively
 * after all, if the preparation or the planner says so. */
ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count);

/* feedback.c: error_feedback: what rounding took from each element is kept on the device and added
 * to the next call of the same buffer.
 *
 * A residual belongs to a communicator and to a buffer, its count and its type. Whether a rank has
 * one changes only the numbers that it sends: a rank without memory for it goes on without. The
 * buffer may hold another tensor by now: the kernels add no more than a step of a residual. */

struct cshim_residual {
    const void *buffer;
    uint64_t count;
    enum cshim_dtype dtype;
    enum cshim_algorithm algorithm; /* of the latest call: the places of its sums */
    uint64_t bytes;                 /* of memory, against the policy's limit */
    /* float32 elements on the device, zeros at first: of those that this rank has encoded, by their
     * place in the buffer; then of the sums it has encoded as their owner, chunk behind chunk. */
    CUdeviceptr memory;
    struct cshim_residual *next;
};

/* The residual of a call's buffer, made if there is none; zeros if the call before took another
 * algorithm. Returns NULL without memory, and for a captured call that would need new memory or
 * zeros. */
struct cshim_residual *cshim_feedback_find(const struct cshim_nccl_call *call);

/* Frees the residuals of a communicator that ends. Its context is current. */
void cshim_feedback_free(struct cshim_nccl_comm *comm);

#endif
