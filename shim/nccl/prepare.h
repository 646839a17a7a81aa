/* SPDX-License-Identifier: Apache-2.0 */
/* The preparation of communicators: what compressed calls need is made at the first one, by all
 * ranks together. They tell each other through NCCL itself whether they can compress.
 *
 * What the telling needs is reserved when the communicator is made, while a rank without it can
 * still say so at the rendezvous. From then on a preparation fails only if CUDA or NCCL fails, or a
 * process ends. Then the other ranks hear of it by way of the rendezvous. */
#ifndef CSHIM_NCCL_PREPARE_H
#define CSHIM_NCCL_PREPARE_H

#include "shim/nccl/measure.h"

/* Makes sure that the ranks can tell each other what they need to; or tells why this rank cannot.
 */
void cshim_prepare_reserve(struct cshim_nccl_comm *comm, char *why, size_t size);

/* Prepares, all at once, the communicators of which these are the first compressed calls. That
 * takes the same course on all ranks: a communicator may get a reason why it does not compress.
 * Waits for the other ranks as NCCL's own first call does, and for the GPU. */
ncclResult_t cshim_prepare(const struct cshim_nccl_call *calls, size_t count);

/* Gives back what the preparation has made. */
void cshim_prepare_undo(struct cshim_nccl_comm *comm);

#endif
