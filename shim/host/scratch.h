/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch of calls under way: pieces of CSHIM_SCRATCH_LIMIT bytes of address space, of which a
 * process keeps as many as it has had calls under way at once. Their pages are taken as they are
 * used, and stay. Thread-safe. */
#ifndef CSHIM_HOST_SCRATCH_H
#define CSHIM_HOST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Address space of zeros whose pages are taken as they are used; NULL without memory. */
void *cshim_scratch_map(size_t bytes);
/* Makes the first piece, if there is none yet: a process with one call at a time needs no other.
 * Returns false without memory. */
bool cshim_scratch_reserve(void);
/* Takes a piece. Where there is no memory for another one, the message says so, and it returns
 * NULL: the caller ends the job. */
uint8_t *cshim_scratch_take(void);
/* Gives it back, once nothing writes to it any more. NULL is ignored. */
void cshim_scratch_give(uint8_t *scratch);

#endif
