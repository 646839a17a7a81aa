/* SPDX-License-Identifier: Apache-2.0 */
/* Emulates MPI_X_c by MPI_X, for MPI libraries without the large-count functions: converts 64-bit
 * counts to int, and address-sized displacements if MPI_X takes int. In a wrapper of MPI_X_c:
 *
 *     sent = cshim_narrow_one(sendcount);
 *     received = cshim_narrow_arrays(entries, recvcounts, displacements, comm);
 *     status = cshim_narrow_judge("MPI_X", &sent, &received, comm);
 *     if (status == 0)
 *         status = MPI_X(... the ints of both ...);
 *     return cshim_narrow_end("MPI_X", &sent, &received, status);
 *
 * A single count that does not fit becomes -1, which the library refuses by the communicator's
 * error handler, unless it ignores that count or checks no arguments. Not every library checks all
 * entries of an array, so arrays with an entry that does not fit are refused here. All functions
 * are reentrant. */
#ifndef CSHIM_NARROW_H
#define CSHIM_NARROW_H

#include <stdbool.h>

#include "shim/mpi/engine.h"

/* One side of a call, sent or received: a count, or arrays of counts and displacements. */
struct cshim_narrowed {
    int status;   /* MPI error of the conversion; 0: none */
    bool fits;    /* all values fit int, not counting displacements of empty blocks */
    bool refused; /* a value in an array does not fit */
    int count;
    /* Allocated until cshim_narrow_end(). NULL if the call has no such array or ignores it; may
     * be NULL if `status` is an error. */
    int *counts;
    int *displacements;
};

/* Ranks for which an array has an entry. */
enum cshim_entries {
    CSHIM_NOT_READ, /* the library does not read the array */
    CSHIM_OWN_GROUP,
    CSHIM_PARTNERS,    /* the remote group of an intercommunicator, else the own group */
    CSHIM_SOURCES,     /* neighbors from which this rank receives, in the communicator's topology */
    CSHIM_DESTINATIONS /* neighbors to which this rank sends */
};

/* Returns the entries of arrays that are read at the root only; `root` is this rank's argument. */
enum cshim_entries cshim_entries_at_root(int root, MPI_Comm comm);
/* Returns the entries of arrays for sent data, which are not read with MPI_IN_PLACE. */
enum cshim_entries cshim_entries_sent(const void *sendbuf);

/* Converts a single count; the result has no arrays. */
struct cshim_narrowed cshim_narrow_one(MPI_Count count);
/* Converts arrays; either may be NULL. Asks the library for the number of entries, which may call
 * the communicator's error handler. The displacement of an empty block may have any value. */
struct cshim_narrowed cshim_narrow_arrays(enum cshim_entries entries, const MPI_Count *counts,
                                          const MPI_Aint *displacements, MPI_Comm comm);

/* Returns 0 if MPI_X (`name`) may be called. Otherwise returns an MPI error: that of a failed
 * conversion; else, if an array is refused, after printing why and calling the communicator's error
 * handler. */
int cshim_narrow_judge(const char *name, const struct cshim_narrowed *sent,
                       const struct cshim_narrowed *received, MPI_Comm comm);
/* Frees both sides. If MPI_X failed (`status`) and a single count did not fit, prints that. Returns
 * `status`. */
int cshim_narrow_end(const char *name, struct cshim_narrowed *sent, struct cshim_narrowed *received,
                     int status);

#endif
