/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses by measured durations how the all-reduces of a class are made (shim/core/choice.h,
 * shim/report/classes.h): natively, or compressed by an algorithm that can make them.
 *
 * CUDA events around a sampled call, on the program's stream, measure its duration; the host reads
 * them later. The ranks agree on the durations as rendezvous_durations.h describes, while the
 * program goes on: when a decision is due, the class's calls take the best candidate so far until
 * it is in force. All ranks of a communicator make the same calls of a class in the same order, and
 * learn of a decision between the same two calls. So they choose alike, and the host waits only if
 * an answer takes longer than CSHIM_WINDOW calls; the report has the number of these waits at rank
 * 0 (host_waits).
 *
 * Calls in captured graphs, and several calls on one communicator in a group, are neither tried nor
 * timed: they take what the class has learned so far, otherwise what cshim_plan_call() says. */
#ifndef CSHIM_NCCL_CHOOSE_H
#define CSHIM_NCCL_CHOOSE_H

#include "shim/nccl/describe.h"

/* Allocates what a communicator's choices need, if its policy has a rule for that. Returns false
 * without memory. */
bool cshim_choosing_make(struct cshim_nccl_comm *comm);
/* Begins to collect durations at rank 0, and returns where: the tag's magic is 0 if they are not
 * collected, and at other ranks. */
struct cshim_tag cshim_choosing_collect(struct cshim_nccl_comm *comm);
/* Takes where rank 0 collects durations, once all ranks know it. */
void cshim_choosing_meet(struct cshim_nccl_comm *comm, const struct cshim_tag *tag);
/* Frees this; NULL is none. The communicator's context is current. */
void cshim_choosing_free(struct cshim_nccl_comm *comm);

/* Plans a call, and sets `chosen`. `is_alone`: it is the only call of its group on its
 * communicator. Fails if this rank cannot know what the others were told about a decision. */
ncclResult_t cshim_choose(struct cshim_nccl_call *call, bool is_alone);

/* Records the event before or after a sampled call on its stream. */
void cshim_choose_mark(const struct cshim_nccl_call *call, bool is_end);

/* Counts a call that was made. */
void cshim_choose_count(const struct cshim_nccl_call *call);

#endif
