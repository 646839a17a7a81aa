/* SPDX-License-Identifier: Apache-2.0 */
/* Nonblocking communicators. NCCL returns ncclInProgress from their calls and enqueues them on a
 * thread of its own; the program polls ncclCommGetAsyncError until that is done. The engine
 * likewise starts a thread for each group that makes communicators or has calls to compress, and
 * returns ncclInProgress until that thread has finished. Thread-safe. */
#ifndef CSHIM_NCCL_BACKGROUND_H
#define CSHIM_NCCL_BACKGROUND_H

#include "shim/nccl/communicator.h"

/* Makes the calling thread a background thread that works for `comms`, which must outlive the work;
 * NULL ends that. */
void cshim_background_begin(struct cshim_nccl_comm *const *comms, size_t count);
/* Returns true on a background thread. */
bool cshim_background_is(void);
/* Waits until NCCL has enqueued what this background thread has called on its communicators.
 * Returns an error if one of them has failed or was stopped. */
ncclResult_t cshim_background_await(void);
/* Calls ncclGroupEnd, and on a background thread waits until NCCL has enqueued the group. `status`
 * is that of the calls in the group; returns the first error. */
ncclResult_t cshim_nccl_end_group(ncclResult_t status);
/* Returns the error of the stop if the communicator was stopped or, on a background thread, any
 * that the thread works for. Otherwise returns the asynchronous error of the communicator or, if it
 * has none, of its `inside` and `across`. ncclInProgress counts as an error. */
ncclResult_t cshim_nccl_state(struct cshim_nccl_comm *comm);
/* Waits until no background thread works for the communicator. */
void cshim_background_leave(const struct cshim_nccl_comm *comm);

#endif
