/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that every duration and deadline is measured with. */
#ifndef CSHIM_CLOCK_H
#define CSHIM_CLOCK_H

/* Seconds since a moment that is fixed while the host runs, by CLOCK_MONOTONIC: setting the host's
 * date does not move it, and all processes of a host read the same. Thread-safe. */
double cshim_seconds(void);

#endif
