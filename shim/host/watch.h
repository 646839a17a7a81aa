/* SPDX-License-Identifier: Apache-2.0 */
/* Reports compressed calls that wait long for messages of their peers, so that the user learns
 * which ranks are awaited: MPI's own waits have no time limit, gloo's usually a long one.
 * Nonblocking calls do not wait. Thread-safe, except cshim_watch_abandon().
 *
 *     struct cshim_wait wait = {.since = cshim_seconds(), .on_slow = report};
 *     cshim_watch_begin(&wait);
 *     ... wait for messages ...
 *     cshim_watch_end(&wait); */
#ifndef CSHIM_WATCH_H
#define CSHIM_WATCH_H

#include <stdbool.h>

#define CSHIM_SLOW_SECONDS 10

/* A watched wait, in its owner's memory. */
struct cshim_wait {
    double since; /* start, by cshim_seconds() */
    bool is_slow; /* atomic */
    /* Called once, from the watching thread and under its lock, when the wait has taken
     * CSHIM_SLOW_SECONDS; is_slow is true by then. cshim_watch_end() waits until it has returned.
     */
    void (*on_slow)(struct cshim_wait *wait);
    struct cshim_wait *next;
};

/* Begins to watch a wait. Starts the watching thread if there is none; if that fails, on_slow may
 * never be called. The thread ends within two seconds after the last wait. */
void cshim_watch_begin(struct cshim_wait *wait);
/* Ends watching a wait. */
void cshim_watch_end(struct cshim_wait *wait);
/* Resets the state in a child of fork(), which does not have the thread. */
void cshim_watch_abandon(void);

#endif
