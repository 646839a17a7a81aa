/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for hosts whose clocks differ: preloaded, the monotonic clock of rank N is N * 1000 s
 * ahead. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_MONOTONIC && rank != NULL)
        now->tv_sec += 1000 * strtol(rank, NULL, 10);
    return status;
}
