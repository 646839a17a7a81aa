/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares communicators: at the first compressed call on a communicator all ranks together
 * allocate what compressed calls need, and exchange through NCCL whether each of them can compress.
 *
 * The memory for that exchange is allocated when the communicator is made (communicators that
 * prepare one after the other share it). A rank that lacks it reports that at the rendezvous;
 * without a rendezvous, making the communicator returns an error on this rank. Later a preparation
 * fails if CUDA or NCCL fails, the host lacks memory, or a process ends. The rendezvous, if there
 * is one, notifies the other ranks of a failure during the exchange.
 *
 * Thread-safe for different communicators. */
#ifndef CSHIM_NCCL_PREPARE_H
#define CSHIM_NCCL_PREPARE_H

#include "shim/nccl/describe.h"

/* Allocates the memory for the exchange, unless the pool has some. On an error writes the reason to
 * `why`. */
void cshim_prepare_reserve(struct cshim_nccl_comm *comm, char why[CSHIM_CUDA_WHY_MAX]);

/* Prepares, all at once, those communicators of `calls` that are not prepared yet and have a call
 * to compress. If the number of nodes is not known, the ranks exchange that first, because the
 * rules may then pass the calls through. If a rank cannot compress, all ranks set comm->reason
 * alike. Waits for the other ranks, as NCCL's own first call does, and for the GPU. */
ncclResult_t cshim_prepare(const struct cshim_nccl_call *calls, size_t count);

/* Releases what the preparation has made, except `inside` and `across` (end_levels in engine.c) and
 * the exchange of a preparation that has failed. */
void cshim_prepare_undo(struct cshim_nccl_comm *comm);

#endif
