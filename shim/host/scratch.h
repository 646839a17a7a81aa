/* SPDX-License-Identifier: Apache-2.0 */
/* Pool of scratch memory for calls under way. A block has CSHIM_SCRATCH_LIMIT bytes of address
 * space, the shared one CSHIM_SCRATCH_SHARED. A process has as many blocks as it has had concurrent
 * calls (at least the reserved one), plus those that failed calls have leaked. It does not unmap
 * them, so their pages stay allocated. All functions are thread-safe, except share, attach, unshare
 * and abandon. */
#ifndef CSHIM_HOST_SCRATCH_H
#define CSHIM_HOST_SCRATCH_H

#include "shim/core/plan.h"

/* Bytes of the area that follows the shared block's scratch, for intra-node operations (node.c). */
#define CSHIM_SCRATCH_INSIDE ((uint64_t)4 << 20)
#define CSHIM_SCRATCH_SHARED (CSHIM_SCRATCH_LIMIT + CSHIM_SCRATCH_INSIDE)

/* Maps `bytes` bytes of zeros; pages are allocated when first used. Returns NULL if there is no
 * memory. */
void *cshim_scratch_map(size_t bytes);
/* Makes the first block, if there is none: enough for a process with one call at a time. Returns
 * false if there is no memory. */
bool cshim_scratch_reserve(void);
/* Makes the first block in a System V shared memory segment of CSHIM_SCRATCH_SHARED bytes, which
 * other processes of the same user can attach, and writes the token into it. Returns the segment's
 * id, or -1. Called before cshim_scratch_reserve(). */
int cshim_scratch_share(uint64_t token);
/* Attaches another process's block for reading, until shmdt(). Returns NULL if that fails, or if
 * the segment lacks this token: in another container the id may denote another segment. */
const uint8_t *cshim_scratch_attach(int segment, uint64_t token);
/* Stops treating the shared block specially: nobody reads it any more. */
void cshim_scratch_unshare(void);
/* Returns true if `scratch` is the shared block. */
bool cshim_scratch_is_shared(const uint8_t *scratch);
/* Acquires a block. If there is no memory, prints an error and returns NULL: the caller ends the
 * call or the job. */
uint8_t *cshim_scratch_acquire(void);
/* Releases a block that nothing writes to any more. NULL is ignored. */
void cshim_scratch_release(uint8_t *scratch);
/* Resets the lock in a child of fork(): a thread that the child does not have may hold it. */
void cshim_scratch_abandon(void);

#endif
