/* SPDX-License-Identifier: Apache-2.0 */
/* A function of MPI, or the same with large counts where this MPI has those (EITHER_LARGE). */
#ifndef EITHER_H
#define EITHER_H

#if MPI_VERSION >= 4
#define EITHER_LARGE 1
#define EITHER(large, function, ...) ((large) ? function##_c(__VA_ARGS__) : function(__VA_ARGS__))
#else
#define EITHER_LARGE 0
#define EITHER(large, function, ...) ((void)(large), function(__VA_ARGS__))
#endif

#endif
