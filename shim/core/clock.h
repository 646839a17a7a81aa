/* SPDX-License-Identifier: Apache-2.0 */
/* The clock for all durations and deadlines, and pauses while waiting. */
#ifndef CSHIM_CLOCK_H
#define CSHIM_CLOCK_H

#include <time.h>

/* Returns the seconds of CLOCK_MONOTONIC: setting the host's date does not change it, and it is
 * equal in all processes of a host. Thread-safe. */
static inline double cshim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define CSHIM_PAUSE_SHORTEST 100e-6
#define CSHIM_PAUSE_LONGEST 10e-3

/* Sleeps between two polls of an event that has been awaited for `waited` seconds: for an eighth of
 * these, within the limits above. If ranks share cores, polling without a pause takes time from
 * late ranks and the launcher. Thread-safe. */
static inline void cshim_pause(double waited)
{
    double seconds = waited / 8;
    if (seconds < CSHIM_PAUSE_SHORTEST)
        seconds = CSHIM_PAUSE_SHORTEST;
    if (seconds > CSHIM_PAUSE_LONGEST)
        seconds = CSHIM_PAUSE_LONGEST;
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

#endif
