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

/* An array that grows. Zeros are an empty one. */
struct cshim_list {
    void *items;
    size_t count;
    size_t room;
};
/* Adds an item of a size to a list whose items all have it. Returns false without memory. */
bool cshim_list_add(struct cshim_list *list, const void *item, size_t size);
/* Frees the items. */
void cshim_list_clear(struct cshim_list *list);

#endif
