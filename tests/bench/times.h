/* SPDX-License-Identifier: Apache-2.0 */
/* The median of measured times. */
#ifndef TESTS_BENCH_TIMES_H
#define TESTS_BENCH_TIMES_H

#include <stdlib.h>

static inline int times_by_length(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the times, and returns their median. */
static inline double median_of(double *times, size_t count)
{
    qsort(times, count, sizeof *times, times_by_length);
    return times[count / 2];
}

#endif
