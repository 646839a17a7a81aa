/* SPDX-License-Identifier: Apache-2.0 */
/* Measures calls for the reports: ledger, live figures, observed classes of calls, trace and
 * sampled errors.
 *
 * CUDA events, recorded between the steps on a stream, give the duration of each step on the GPU.
 * They are read after they have completed; nothing waits for them. Calls captured into a CUDA graph
 * are not timed.
 *
 * Threads may use different communicators concurrently. On one communicator only the functions that
 * are marked as thread-safe may be called concurrently. */
#ifndef CSHIM_NCCL_MEASURE_H
#define CSHIM_NCCL_MEASURE_H

#include "shim/nccl/segment.h"
#include "shim/nccl/timeline.h"

/* Counts a call that is passed through, with its reason (rank 0 only). */
void cshim_measure_pass(const struct cshim_nccl_comm *comm, enum cshim_reason reason);
/* Records a call under COMPSHIM=observe (rank 0 only); the caller passes it through. */
void cshim_measure_observe(const struct cshim_nccl_call *call);

/* Makes a timeline for each stream of a group's calls, if a report or trace needs it, and sets
 * *timelines to the list. Gathers the elements of sampled calls; returns the error if NCCL or CUDA
 * fails in that. Called when the calls are planned and no batch is enqueued. */
ncclResult_t cshim_measure_begin(struct cshim_nccl_call *calls, size_t count,
                                 struct cshim_timeline **timelines);
/* Adds a mark after a step to the timelines of a batch's segments that have the step. Called after
 * the step is enqueued (`waited` false). Called again (`waited` true) if the step is a kernel and
 * the batch's next step is not, or vice versa, after the next step's stream was made to wait for
 * the step. If kernels run on a stream of their own, the second call adds a kernel's mark, and
 * cshim_measure_end() that of the last kernels. The first call adds all other marks. */
void cshim_measure_step(struct cshim_timeline *timelines, const struct cshim_nccl_segment *segments,
                        size_t count, enum cshim_step step, bool waited);
/* Counts a group's calls, unless is_good is false: then the group has failed. Takes over the
 * timelines. Called after all batches are enqueued. */
void cshim_measure_end(struct cshim_timeline *timelines, struct cshim_nccl_call *calls,
                       size_t count, bool is_good);

/* Acquire and release an event of a communicator, for timing. The first returns NULL if all
 * CSHIM_EVENTS are in use or CUDA fails. Thread-safe. */
CUevent cshim_measure_take_event(struct cshim_nccl_comm *comm);
void cshim_measure_give_event(struct cshim_nccl_comm *comm, CUevent event);
/* Sets the seconds between two events that have completed. Returns false if CUDA fails. */
bool cshim_measure_elapsed(CUevent from, CUevent to, double *seconds);

/* Adds the durations and errors of completed calls to ledger and trace, without waiting.
 * Thread-safe. */
void cshim_measure_collect(struct cshim_nccl_comm *comm);

/* Prepares to measure a communicator's calls. Its context must be current. Waits for the GPU if
 * there is a trace. */
void cshim_measure_make(struct cshim_nccl_comm *comm);
/* Frees a communicator's events and its timelines that were not collected. */
void cshim_measure_free(struct cshim_nccl_comm *comm);

#endif
