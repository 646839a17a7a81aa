/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses by measured durations how the all-reduces of a class are made (shim/core/choice.h,
 * shim/report/classes.h): natively, or compressed by an algorithm that can make them.
 *
 * CUDA events around a sampled call, on the program's stream, measure its duration; the host reads
 * them later. The ranks agree on the durations as rendezvous_durations.h describes, while the
 * program continues: when a decision is due, the class's calls take the best candidate so far until
 * the decision is in force. All ranks of a communicator make the same calls of a class in the same
 * order, and learn of a decision between the same two calls. So they choose alike, and the host
 * waits only if an answer takes longer than CSHIM_WINDOW calls; the report has the number of rank
 * 0's waits (host_waits).
 *
 * Calls in captured graphs, and several calls on one communicator in a group, neither try
 * candidates nor provide durations for decisions: they take the best candidate of a class that is
 * settled, or that an earlier job has learned; otherwise the plan of cshim_plan_call(). */
#ifndef CSHIM_NCCL_CHOOSE_H
#define CSHIM_NCCL_CHOOSE_H

#include "shim/nccl/describe.h"

/* Allocates comm->choosing, if the policy has a rule whose calls are measured. Returns false
 * without memory. */
bool cshim_choosing_make(struct cshim_nccl_comm *comm);
/* At rank 0, begins to collect durations, and returns the tag with which all ranks send them. The
 * tag's magic is 0 at other ranks, and if no durations are collected. */
struct cshim_tag cshim_choosing_collect(struct cshim_nccl_comm *comm);
/* Sets the tag that cshim_choosing_collect returned at rank 0; called when all ranks have received
 * it. Ignores a tag whose magic is 0. */
void cshim_choosing_meet(struct cshim_nccl_comm *comm, const struct cshim_tag *tag);
/* Frees comm->choosing, which may be NULL. */
void cshim_choosing_free(struct cshim_nccl_comm *comm);

/* Sets call->plan and call->chosen. `is_alone`: the call is the only one of its group on its
 * communicator. Returns an error if this rank waits for the answer to a question and cannot get it,
 * because rank 0 has ended, or the communicator has failed or was stopped. */
ncclResult_t cshim_choose(struct cshim_nccl_call *call, bool is_alone);

/* Records the event before or after (`is_end`) a call on its stream, if the call is sampled.
 * Without a free event the call has no duration. */
void cshim_choose_mark(const struct cshim_nccl_call *call, bool is_end);

/* Counts a call of a class in the ledger, on rank 0. */
void cshim_choose_count(const struct cshim_nccl_call *call);

#endif
