/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a context's calls until its ranks have agreed. Function, tag and count identify a call
 * alike on all ranks, because calls of a function with one tag follow each other. Not
 * thread-safe. */
#ifndef CSHIM_GLOO_USES_H
#define CSHIM_GLOO_USES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of marks (functions and tags of pending calls) in a message. While there are more,
 * the agreement does not proceed. */
#define CSHIM_GLOO_MARKS_MAX 256
/* Number of passed-through calls after which a rank that is not ready ends the agreement. */
#define CSHIM_GLOO_CALLS_MAX 1000
/* Maximum number of pairs of function and tag. */
#define CSHIM_GLOO_USES_MAX (CSHIM_GLOO_CALLS_MAX + CSHIM_GLOO_MARKS_MAX)

/* The first `count` calls of a function with this tag: all ranks pass them through. */
struct cshim_gloo_mark {
    uint32_t tag;
    uint16_t function;
    uint16_t count;
};

/* Counts of the calls of one function with one tag. */
struct cshim_gloo_use {
    uint32_t tag;
    uint16_t function;
    uint16_t begun;
    uint16_t ended;  /* number of calls known to have begun on all ranks */
    uint16_t native; /* number of calls listed by other ranks: all ranks pass these through */
};

struct cshim_gloo_uses {
    size_t count;
    struct cshim_gloo_use entries[CSHIM_GLOO_USES_MAX];
};

/* Returns the counts of the calls of a function with a tag. Adds an entry if there is none and
 * `adds`. Returns NULL if there is none, or no room for one. */
struct cshim_gloo_use *cshim_gloo_use_find(struct cshim_gloo_uses *uses, unsigned function,
                                           uint32_t tag, bool adds);
/* Lists in `marks` the pending calls: passed-through calls that are known to have begun on some
 * rank, but perhaps not on all. Returns false if they need more than CSHIM_GLOO_MARKS_MAX marks. */
bool cshim_gloo_uses_list(const struct cshim_gloo_uses *uses, struct cshim_gloo_mark *marks,
                          uint32_t *count);
/* Records calls that another rank has listed. Returns false if there is no room for one. */
bool cshim_gloo_uses_add(struct cshim_gloo_uses *uses, const struct cshim_gloo_mark *marks,
                         uint32_t count);
/* Returns true if other ranks have listed calls that this rank has not begun. */
bool cshim_gloo_uses_have_unbegun(const struct cshim_gloo_uses *uses);

#endif
