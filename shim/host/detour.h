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

/* Before so many bytes are encoded. The place is in the shared scratch, which one call at a time
 * has, if `is_read`; else nothing is to be gained. */
struct cshim_detour cshim_detour_begin(bool is_read, uint8_t *place, size_t bytes);

/* When so many have been: now they are in their place. */
void cshim_detour_end(const struct cshim_detour *detour, size_t bytes);

#endif
