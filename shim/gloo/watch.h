/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes a rank whose wait in a call takes long, so that it can say for whom it waits: gloo's own
 * waits end only with a message, or with the connections. Thread-safe. */
#ifndef CSHIM_GLOO_WATCH_H
#define CSHIM_GLOO_WATCH_H

#include "shim/gloo/abi.h"

#define CSHIM_GLOO_SLOW_SECONDS 10

/* A wait that is watched; its owner's. */
struct cshim_gloo_wait {
    struct cshim_gloo_buffer *buffer;
    bool receives;
    double since; /* cshim_seconds */
    bool is_slow; /* it has been woken */
    struct cshim_gloo_wait *next;
};

/* Between these, the wait is woken once it has taken CSHIM_GLOO_SLOW_SECONDS: gloo's wait returns
 * CSHIM_GLOO_WOKEN, which it may also do without a reason. */
void cshim_gloo_watch_begin(struct cshim_gloo_wait *wait);
void cshim_gloo_watch_end(struct cshim_gloo_wait *wait);
/* In a child of fork, which has no thread but its own. */
void cshim_gloo_watch_abandon(void);

#endif
