/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the NCCL engine: a round, the segments of calls that run at once. All their messages of a
 * step go in one group of NCCL, which saves launches, and which one thread that drives several
 * devices needs: it would wait for itself otherwise.
 *
 * A round takes the steps of enum cshim_step in their order; a segment has those of its schedule.
 * Kernels and messages of a segment are on its call's stream. */
#ifndef CSHIM_NCCL_ROUND_H
#define CSHIM_NCCL_ROUND_H

#include "shim/nccl/steps.h"

/* timing.c: how long calls and their steps take, by events between what is enqueued on the streams
 * (lap.h). Begin comes behind the plans of the calls and before their first round; round before
 * each round's steps, step behind each step; end behind the last round, or with is_good false after
 * a failure, when nothing of it is told. */
void cshim_timing_begin(struct cshim_nccl_call *calls, size_t count);
void cshim_timing_round(const struct cshim_segment *segments, size_t count);
void cshim_timing_step(const struct cshim_segment *segments, size_t count, enum cshim_step step);
void cshim_timing_end(struct cshim_nccl_call *calls, size_t count, bool is_good);

#endif
