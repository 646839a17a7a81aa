/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch of calls under way: pieces of CSHIM_SCRATCH_LIMIT bytes of address space, of which a
 * process keeps as many as it has had calls under way at once. Their pages stay. All functions are
 * thread-safe. */
#ifndef CSHIM_HOST_SCRATCH_H
#define CSHIM_HOST_SCRATCH_H

#include "shim/core/plan.h"

/* Behind the scratch that other processes may read: what the ranks of a node tell each other. */
#define CSHIM_SCRATCH_INSIDE ((uint64_t)4 << 20)
#define CSHIM_SCRATCH_SHARED (CSHIM_SCRATCH_LIMIT + CSHIM_SCRATCH_INSIDE)

/* Address space of zeros whose pages are taken as they are used; NULL without memory. */
void *cshim_scratch_map(size_t bytes);
/* Makes the first piece, if there is none yet: a process with one call at a time needs no other.
 * Returns false without memory. */
bool cshim_scratch_reserve(void);
/* Makes the first piece of a System V segment of CSHIM_SCRATCH_SHARED bytes that other processes of
 * the same user can attach, and writes the token into it. Returns the segment's number; -1 where
 * the system has none. Called before the functions below. */
int cshim_scratch_share(uint64_t token);
/* Attaches another process's piece to read it. Returns NULL if there is none with this number and
 * token: another container may give the number to another segment. */
const uint8_t *cshim_scratch_attach(int segment, uint64_t token);
void cshim_scratch_detach(const uint8_t *memory);
/* Has it be like any other piece: nobody reads it. */
void cshim_scratch_unshare(void);
bool cshim_scratch_is_shared(const uint8_t *scratch);
/* Takes a piece. Where there is no memory for another one, the message says so, and it returns
 * NULL: the caller ends the job. */
uint8_t *cshim_scratch_take(void);
/* Gives it back, once nothing writes to it any more. NULL is ignored. */
void cshim_scratch_give(uint8_t *scratch);
/* In a child of fork: a thread that it does not have may have held the lock. */
void cshim_scratch_abandon(void);

#endif
