/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback: residuals (shim/report/residual.h) on the device. A residual's memory has the
 * errors of this rank's contributions, in the order in which they are encoded, followed by the
 * errors of the sums that the rank has encoded as their owner, one chunk after the other. */
#ifndef CSHIM_NCCL_FEEDBACK_H
#define CSHIM_NCCL_FEEDBACK_H

#include "shim/nccl/describe.h"

/* Returns the residual of a call's buffer; the caller releases it once the call is enqueued. Clears
 * or replaces it if the previous call took another algorithm. Returns NULL without memory, and for
 * a captured call whose residual would have to be allocated or cleared, because each launch of the
 * graph would repeat that. */
struct cshim_residual *cshim_feedback_find(const struct cshim_nccl_call *call);

/* Frees the residuals of a communicator that ends. Its context must be current. */
void cshim_feedback_free(struct cshim_nccl_comm *comm);

#endif
