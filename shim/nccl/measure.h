/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of calls. The functions below are one stream of events, in the order in which they
 * happen to a call. The ledger with the live figures, the observed kinds of calls, the trace and
 * the sampled errors are made of it.
 *
 * How long steps take on the GPU is told by CUDA events between what is enqueued on the streams.
 * They are read after they have happened: nothing waits for them. Calls of graphs are not timed. */
#ifndef CSHIM_NCCL_MEASURE_H
#define CSHIM_NCCL_MEASURE_H

#include "shim/nccl/segment.h"
#include "shim/nccl/timeline.h"

/* A call goes to NCCL as it is. */
void cshim_measure_pass(const struct cshim_nccl_comm *comm, enum cshim_reason reason);
/* COMPSHIM=observe: so it does, and is written down. */
void cshim_measure_observe(const struct cshim_nccl_call *call);

/* A group of calls was planned, and nothing of it is enqueued. Begins a list of the timelines of
 * its streams. Gathers what is sampled: as far as NCCL has one outcome on all ranks, so has this.
 */
ncclResult_t cshim_measure_begin(struct cshim_nccl_call *calls, size_t count,
                                 struct cshim_timeline **timelines);
/* A step of a batch of segments of these calls is enqueued; or, if it is `waited` for, what comes
 * next on the calls' stream comes behind it. */
void cshim_measure_step(struct cshim_timeline *timelines, const struct cshim_segment *segments,
                        size_t count, enum cshim_step step, bool waited);
/* All batches are enqueued; or, with is_good false, one has failed and the calls do not count.
 * Takes the timelines over. */
void cshim_measure_end(struct cshim_timeline *timelines, struct cshim_nccl_call *calls,
                       size_t count, bool is_good);

/* Takes an event of a communicator for other measurements, and gives it back. Returns NULL if all
 * of CSHIM_EVENTS are in use. */
CUevent cshim_measure_take_event(struct cshim_nccl_comm *comm);
void cshim_measure_give_event(struct cshim_nccl_comm *comm, CUevent event);
/* Sets the seconds between two events that have happened. Returns false if CUDA does not tell. */
bool cshim_measure_elapsed(CUevent from, CUevent to, double *seconds);

/* Takes the times and errors that are known by now into ledger and trace. Any thread may do so. */
void cshim_measure_collect(struct cshim_nccl_comm *comm);

/* Makes what measuring a communicator's calls needs. Its context is current. Waits for the GPU if
 * there is a trace. */
void cshim_measure_make(struct cshim_nccl_comm *comm);
/* What is not known yet will not be told. */
void cshim_measure_free(struct cshim_nccl_comm *comm);

/* trace.c: adds what a timeline has added up to the traces of its calls' jobs. It began at a time
 * of cshim_seconds: events happened on streams of the GPU, but their times are those of the host.
 */
void cshim_nccl_trace_add(const struct cshim_timeline *timeline, double begin);
/* Names the streams of these events in a trace's file. */
void cshim_nccl_name_lanes(struct cshim_trace_file *file, int rank);

/* sample.c: the sampled error (shim/core/sample.h). Before a sampled call a few elements of all
 * ranks are gathered by NCCL and copied to rank 0's host. Behind the call, the same elements of
 * rank 0's result are copied there. They are compared when the last copy has happened; nothing
 * waits for it.
 *
 * All ranks sample the same calls: the memory for it is part of the workspace. What rank 0 needs
 * beyond that is its own business: without it, rank 0 compares nothing. */

/* Chooses calls of a group by what is equal on all ranks, and gathers their elements. Comes behind
 * the plans of the calls and before their first batch. As far as NCCL has one outcome on all ranks,
 * so has this. */
ncclResult_t cshim_sample_begin(struct cshim_nccl_call *calls, size_t count);

/* Copies the result's elements of a call that has a slot, behind its last batch, and hands the slot
 * on to the call's timeline; or, with is_kept false, gives it back. */
void cshim_sample_end(const struct cshim_nccl_call *call, bool is_kept);

/* Whether the copies of a slot have happened. */
bool cshim_sample_has_happened(const struct cshim_sample_slot *slot);
/* Adds the errors of a slot whose copies have happened to a call's figures. */
void cshim_sample_compare(const struct cshim_sample_slot *slot, struct cshim_row *figures);
/* Gives a slot back, if it is not NULL. It is used again after its copies have happened. */
void cshim_sample_give(struct cshim_sample_slot *slot);

/* Gives a communicator of rank 0 what it needs to compare. Its context is current. */
void cshim_sample_make(struct cshim_nccl_comm *comm);

#endif
