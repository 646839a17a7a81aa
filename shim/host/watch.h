/* SPDX-License-Identifier: Apache-2.0 */
/* Finds waits of compressed calls that take long, so that somebody can say for whom a rank waits:
 * the libraries' own waits end only with a message. Thread-safe.
 *
 *     struct cshim_wait wait = {.since = cshim_seconds(), .on_slow = say_so};
 *     cshim_watch_begin(&wait);
 *     ... wait for messages ...
 *     cshim_watch_end(&wait);
 */
#ifndef CSHIM_WATCH_H
#define CSHIM_WATCH_H

#include <stdbool.h>

#define CSHIM_SLOW_SECONDS 10

/* A wait that is watched, in its owner's memory. */
struct cshim_wait {
    double since; /* cshim_seconds */
    bool is_slow; /* atomic */
    /* Called once, by a thread of the library and under its lock, when the wait has taken
     * CSHIM_SLOW_SECONDS; is_slow is true by then. The wait does not end meanwhile. */
    void (*on_slow)(struct cshim_wait *wait);
    struct cshim_wait *next;
};

/* Begin starts the thread that watches if there is none yet. Without threads nobody is called. */
void cshim_watch_begin(struct cshim_wait *wait);
void cshim_watch_end(struct cshim_wait *wait);
/* In a child of fork, which has no thread but its own. */
void cshim_watch_abandon(void);

#endif
