/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's groups. As NCCL launches the calls of a group only at the end of the outermost group,
 * compressed calls wait until then, and are enqueued after those that NCCL makes itself. The state
 * is thread-local, as NCCL's is. */
#ifndef CSHIM_NCCL_GROUP_H
#define CSHIM_NCCL_GROUP_H

#include "shim/nccl/describe.h"

/* Replace ncclGroupStart, ncclGroupEnd and ncclGroupSimulateEnd. */
ncclResult_t cshim_group_start(void);
ncclResult_t cshim_group_end(void);
ncclResult_t cshim_group_simulate_end(ncclSimInfo_t *info);

/* Adds a call to the thread's group; outside a group, runs it at once (on a nonblocking
 * communicator, in a background thread). Takes over the call's reference. */
ncclResult_t cshim_group_add(const struct cshim_nccl_call *call);

/* Adds to the registry a communicator that NCCL makes: at the end of the group or, outside a group,
 * at once. Takes over the reference; NULL (no memory) is an error. `status` is what NCCL returned.
 * Returns `status` or an error; outside a group ncclInProgress if the communicator is
 * nonblocking. */
ncclResult_t cshim_group_expect(struct cshim_nccl_comm *comm, ncclResult_t status);

#endif
