/* SPDX-License-Identifier: Apache-2.0 */
/* error_feedback: what rounding took from each element is kept on the device and added to the next
 * call of the same buffer.
 *
 * A residual belongs to a communicator and to a buffer, its count and its type. Whether a rank has
 * one changes only the numbers that it sends: a rank without memory for it goes on without. The
 * buffer may hold another tensor by now: the kernels add no more than a step of a residual. */
#ifndef CSHIM_NCCL_FEEDBACK_H
#define CSHIM_NCCL_FEEDBACK_H

#include "shim/nccl/describe.h"

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
