/* SPDX-License-Identifier: Apache-2.0 */
/* The detour of a message that ranks of a node read where it lies: encoded in memory of this rank's
 * own, then copied. Where ranks have cores with caches of their own, an encoder waits for each line
 * of the place that another core has read, while a copy takes them all over. Where they share a
 * cache, the copy is time lost. So both ways are timed, now and then, and the faster one is taken.
 * The bytes are the same.
 */
#ifndef CSHIM_HOST_DETOUR_H
#define CSHIM_HOST_DETOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cshim_detour {
    uint8_t *place;   /* where other ranks will read */
    uint8_t *encoded; /* where to encode: there, or elsewhere */
    double began;     /* seconds; 0: not timed */
};

/* What comes to a place. */
enum cshim_writing {
    CSHIM_WRITING_UNREAD, /* what nobody reads there, or what takes no longer there */
    CSHIM_WRITING_PART,   /* encoded elements; these are timed */
    CSHIM_WRITING_SUM     /* they go the way that was faster for parts */
};

/* Before so many bytes are written. The place of what is read is in the shared scratch, which one
 * call at a time has. */
struct cshim_detour cshim_detour_begin(enum cshim_writing what, uint8_t *place, size_t bytes);

/* When so many have been: now they are in their place. */
void cshim_detour_end(const struct cshim_detour *detour, size_t bytes);

#endif
