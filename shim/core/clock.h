/* SPDX-License-Identifier: Apache-2.0 */
/* The clock for durations and deadlines on the host, and a pause for polling. */
#ifndef CSHIM_CLOCK_H
#define CSHIM_CLOCK_H

#include <time.h>

/* Returns the seconds of CLOCK_MONOTONIC: setting the host's date does not change it, and it is
 * equal in all processes of a host that share a time namespace. Thread-safe. */
static inline double cshim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define CSHIM_PAUSE_SHORTEST 20e-6
#define CSHIM_PAUSE_LONGEST 10e-3

/* Sleeps between two polls of an event, for a 32nd of `waited`, the seconds since the first poll,
 * within the limits above. If ranks share cores, polling without a pause takes time from late ranks
 * and the launcher; long pauses delay a new connection, which needs several polls on both sides.
 * Thread-safe. */
static inline void cshim_pause(double waited)
{
    double seconds = waited / 32;
    if (seconds < CSHIM_PAUSE_SHORTEST)
        seconds = CSHIM_PAUSE_SHORTEST;
    if (seconds > CSHIM_PAUSE_LONGEST)
        seconds = CSHIM_PAUSE_LONGEST;
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

#endif
