/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators that the engine knows, by NCCL's handle. A handle may become another
 * communicator's after it was destroyed. All functions are thread-safe. */
#ifndef CSHIM_NCCL_REGISTRY_H
#define CSHIM_NCCL_REGISTRY_H

#include "shim/nccl/batch.h"

/* What is known of a communicator, with a reference for the caller, which the caller releases. NULL
 * if nothing is known. */
struct cshim_nccl_comm *cshim_registry_find(ncclComm_t comm);
/* What a communicator holds goes with its last reference. */
void cshim_registry_release(struct cshim_nccl_comm *comm);

/* Asks NCCL about a communicator that has just been made. A nonblocking one may still be in the
 * making: nothing is asked, and `ranks` and `rank` are taken as they are. The caller adds the
 * communicator or releases it. Returns NULL, and why, if NCCL does not tell or there is no
 * memory. */
struct cshim_nccl_comm *cshim_registry_make(ncclComm_t handle, bool nonblocking, int ranks,
                                            int rank, char *why, size_t size);

/* Adds a communicator, with the job that its ranks have agreed on (NULL: they have not). `nodes`
 * hold its ranks; 0 if that is not known yet. Takes the reference over. */
void cshim_registry_add(struct cshim_nccl_comm *comm, struct cshim_nccl_job *job, uint32_t nodes);

/* Takes a communicator out before its handle can become another's; NULL if it is not known. The
 * caller ends it, which writes the reports that are due if it was the last. Ending NULL does
 * nothing. */
struct cshim_nccl_comm *cshim_registry_take(ncclComm_t comm);
void cshim_registry_end(struct cshim_nccl_comm *comm);

/* The handle is about to be aborted. From now on NCCL is not asked about it. */
void cshim_registry_abort(struct cshim_nccl_comm *comm);

#endif
