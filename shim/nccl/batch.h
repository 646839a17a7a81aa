/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compressed calls in batches of segments that fit the workspaces. The messages of all
 * segments of a batch go in one group of NCCL for each step. That saves launches, and a thread that
 * drives several devices would wait for itself otherwise. */
#ifndef CSHIM_NCCL_BATCH_H
#define CSHIM_NCCL_BATCH_H

#include "shim/nccl/prepare.h"

/* Runs the calls that wait at the end of a group, in their order. Some are made natively after all,
 * if the preparation or the planner says so. */
ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count);

/* Room for one more element in an array that grows. Returns false without memory. */
bool cshim_grow(void **array, size_t count, size_t *room, size_t size);

#endif
