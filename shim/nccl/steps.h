/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a segment's schedule, as kernels and NCCL's calls on the stream of its call. */
#ifndef CSHIM_NCCL_STEPS_H
#define CSHIM_NCCL_STEPS_H

#include "shim/nccl/segment.h"

/* Enqueues a step of a segment. Does nothing if the segment's schedule has no such step. Steps of
 * CSHIM_PHASE_EXCHANGE are calls of NCCL and belong into a group of it. The others are kernels and
 * need the context of the communicator. */
ncclResult_t cshim_step_enqueue(const struct cshim_segment *segment, enum cshim_step step);

#endif
