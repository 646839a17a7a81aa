/* SPDX-License-Identifier: Apache-2.0 */
/* The sampled error (shim/core/sample.h). Before a sampled call that adds, NCCL gathers a few
 * elements of all ranks, and rank 0 copies these to its host memory. If the call adds nothing, rank
 * 0 copies only its own elements. After the call rank 0 copies the same elements of its result. It
 * compares them when the last copy has completed; nothing waits for that copy.
 *
 * All ranks sample the same calls: the memory for gathering is part of the workspace, so no rank
 * lacks it. Rank 0's host memory and events are optional: without them rank 0 gathers but compares
 * nothing. */
#ifndef CSHIM_NCCL_SAMPLE_H
#define CSHIM_NCCL_SAMPLE_H

#include "shim/nccl/describe.h"

/* Selects the calls of a group to sample, the same on all ranks, and gathers their elements. Called
 * after the calls are planned and before their first batch. Returns an error of NCCL or CUDA. */
ncclResult_t cshim_sample_begin(struct cshim_nccl_call *calls, size_t count);

/* Called after the last batch of a call that has a slot. If is_kept is true, copies the elements of
 * the result and passes the slot to the call's timeline. Otherwise releases the slot. */
void cshim_sample_end(const struct cshim_nccl_call *call, bool is_kept);

/* Returns true if the copies of a slot have completed. */
bool cshim_sample_has_happened(const struct cshim_sample_slot *slot);
/* Adds the errors of the slot's elements to a call's figures. The copies must have completed. */
void cshim_sample_compare(const struct cshim_sample_slot *slot, struct cshim_row *figures);
/* Releases a slot; NULL is allowed. The slot is used again after its copies have completed. */
void cshim_sample_give(struct cshim_sample_slot *slot);

/* Sets comm->samples to the slots of the workspace, and makes these if there are none. Leaves it
 * NULL without memory, on ranks other than 0, and without a report. The communicator's context must
 * be current. */
void cshim_sample_make(struct cshim_nccl_comm *comm);

#endif
