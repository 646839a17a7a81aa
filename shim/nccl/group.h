/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's groups. What a program calls inside a group may come before other work on its stream. So
 * nothing is launched before the end of the outermost group, and then first what NCCL does itself.
 * The state is the thread's, as NCCL's is. */
#ifndef CSHIM_NCCL_GROUP_H
#define CSHIM_NCCL_GROUP_H

#include "shim/nccl/describe.h"

/* ncclGroupStart, ncclGroupEnd, ncclGroupSimulateEnd. */
ncclResult_t cshim_group_start(void);
ncclResult_t cshim_group_end(void);
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info);

/* Adds a call to the group, or runs it where there is none. Takes the call's reference over. */
ncclResult_t cshim_group_add(const struct cshim_nccl_call *call);

/* ncclRedOpDestroy: at the end of the group, whose calls may still need the operation. */
ncclResult_t cshim_group_destroy_op(ncclRedOp_t op, ncclComm_t comm);

/* Adds a communicator that is being made to those that are known, at the end of the group or at
 * once. Takes the reference over; NULL is an error. */
ncclResult_t cshim_group_expect(struct cshim_nccl_comm *comm);

/* batch.c: runs the calls that wait at the end of a group, in their order. Some are made natively
 * after all, if the preparation or the planner says so. */
ncclResult_t cshim_batches_run(struct cshim_nccl_call *calls, size_t count);

#endif
