/* SPDX-License-Identifier: Apache-2.0 */
/* EITHER_COUNT calls an MPI function, or its large-count variant if `large` is true and this MPI
 * has such variants (HAS_LARGE_COUNTS). */
#ifndef EITHER_COUNT_H
#define EITHER_COUNT_H

#if MPI_VERSION >= 4
#define HAS_LARGE_COUNTS 1
#define EITHER_COUNT(large, function, ...)                                                         \
    ((large) ? function##_c(__VA_ARGS__) : function(__VA_ARGS__))
#else
#define HAS_LARGE_COUNTS 0
#define EITHER_COUNT(large, function, ...) ((void)(large), function(__VA_ARGS__))
#endif

#endif
