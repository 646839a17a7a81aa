/* SPDX-License-Identifier: Apache-2.0 */
/* The sampled error (shim/core/sample.h). Before a sampled call a few elements of all ranks are
 * gathered by NCCL and copied to rank 0's host. Behind the call, the same elements of rank 0's
 * result are copied there. They are compared when the last copy has happened; nothing waits for it.
 *
 * All ranks sample the same calls: the memory for it is part of the workspace. What rank 0 needs
 * beyond that is its own business: without it, rank 0 compares nothing. */
#ifndef CSHIM_NCCL_SAMPLE_H
#define CSHIM_NCCL_SAMPLE_H

#include "shim/nccl/describe.h"

/* Chooses calls of a group by what is equal on all ranks, and gathers their elements. Comes behind
 * the plans of the calls and before their first batch. As far as NCCL has one outcome on all ranks,
 * so has this. */
ncclResult_t cshim_sample_begin(struct cshim_nccl_call *calls, size_t count);

/* Copies the result's elements of a call that has a slot, behind its last batch. With is_kept false
 * its sample is not compared. */
void cshim_sample_end(const struct cshim_nccl_call *call, bool is_kept);

/* The bytes that all ranks together send for a call's sample. */
uint64_t cshim_sample_bytes_wire(const struct cshim_nccl_call *call);

/* Whether the copies of a slot have happened. */
bool cshim_sample_has_happened(const struct cshim_nccl_comm *comm,
                               const struct cshim_sample_slot *slot);
/* Adds the errors of a slot whose copies have happened to a call's figures, and frees the slot. */
void cshim_sample_compare(struct cshim_sample_slot *slot, struct cshim_row *figures);
/* Nobody will compare a slot, if it is not NULL and was not compared yet. It is used again after
 * its copies have happened. */
void cshim_sample_drop(struct cshim_sample_slot *slot);

/* Gives a communicator of rank 0 what it needs to compare. Its context is current. */
void cshim_sample_make(struct cshim_nccl_comm *comm);

#endif
