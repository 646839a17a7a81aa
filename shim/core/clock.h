/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that every duration and deadline is measured with. */
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

#endif
