/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/clock.h"

#include <time.h>

double cshim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
