/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that every duration and deadline is measured with, and pauses. */
#ifndef CSHIM_CLOCK_H
#define CSHIM_CLOCK_H

#include <time.h>

/* Seconds since a moment that is fixed while the host runs, by CLOCK_MONOTONIC: setting the host's
 * date does not move it, and all processes of a host read the same. Thread-safe. */
static inline double cshim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#define CSHIM_PAUSE_SHORTEST 100e-6
#define CSHIM_PAUSE_LONGEST 10e-3

/* Sleeps between two looks for what has been awaited for so many seconds: an eighth of them, within
 * the limits above. Where ranks share cores, a rank that looks all the time keeps them from the
 * ranks that are late, and from the launcher. Thread-safe. */
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
