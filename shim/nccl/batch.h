/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: segments of several calls, which take each step together. */
#ifndef CSHIM_NCCL_BATCH_H
#define CSHIM_NCCL_BATCH_H

#include "shim/nccl/describe.h"

/* Makes the calls of a group. First passes through those that the preparation, the planner or
 * begin_batched_call() decides not to compress, then runs the others, on each communicator in their
 * order. */
ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count);

#endif
