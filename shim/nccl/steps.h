/* SPDX-License-Identifier: Apache-2.0 */
/* The runner for device memory: enqueues the operations of a segment, a step at a time. */
#ifndef CSHIM_NCCL_STEPS_H
#define CSHIM_NCCL_STEPS_H

#include "shim/nccl/segment.h"

/* Enqueues a step of a segment; does nothing if the segment does not have the step. Steps of
 * CSHIM_PHASE_EXCHANGE are NCCL's operations on comm->runs_on; the caller opens an NCCL group for
 * them. The others are kernels on comm->kernels. The communicator's context must be current. */
ncclResult_t cshim_step_enqueue(const struct cshim_nccl_segment *segment, enum cshim_step step);

#endif
