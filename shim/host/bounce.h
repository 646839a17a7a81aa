/* SPDX-License-Identifier: Apache-2.0 */
/* Bounce buffer for messages that other ranks of the node read in shared memory: a message is
 * encoded in private memory, then copied. If ranks run on cores with separate caches, encoding in
 * place waits for each cache line that another core has read, while a copy fetches them
 * concurrently. If they share a cache, the copy only costs time. So both ways are timed, the unused
 * one now and then, and the bounce buffer is used if it is clearly faster. The bytes are the same.
 */
#ifndef CSHIM_HOST_BOUNCE_H
#define CSHIM_HOST_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cshim_bounce {
    uint8_t *place;   /* where other ranks read */
    uint8_t *encoded; /* where to encode: `place` or the bounce buffer */
    double began;     /* cshim_seconds(); 0: not timed */
};

/* Types of data written to `place`. */
enum cshim_writing {
    CSHIM_WRITING_UNREAD, /* no other rank reads it in place, or the bounce buffer saves nothing */
    CSHIM_WRITING_PART,   /* encoded elements of a contribution; timed if long */
    CSHIM_WRITING_SUM     /* encoded elements of a reduced chunk; not timed */
};

/* Begins a write of at most `bytes` bytes to `place`; the caller then encodes to .encoded. Unless
 * `what` is UNREAD, `place` is in the shared scratch, which one call at a time holds. */
struct cshim_bounce cshim_bounce_begin(enum cshim_writing what, uint8_t *place, size_t bytes);

/* Ends the write after encoding: the bytes are then at .place. */
void cshim_bounce_end(const struct cshim_bounce *bounce, size_t bytes);

#endif
