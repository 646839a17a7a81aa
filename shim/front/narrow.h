/* SPDX-License-Identifier: Apache-2.0 */
/* Makes MPI_X_c of MPI_X: turns counts of 64 bits and displacements of the size of an address into
 * int, for an MPI library that has only functions of int.
 *
 * A single count that does not fit int becomes -1. The library refuses that by the caller's error
 * handler, unless it ignores the count. Not every library looks at all entries of an array, so an
 * array with an entry that does not fit is refused here. All functions are reentrant. */
#ifndef CSHIM_NARROW_H
#define CSHIM_NARROW_H

#include <stdbool.h>

#include "shim/mpi/engine.h"

/* What one side of a call sends or receives: a count, or arrays of counts and displacements. */
struct cshim_narrowed {
    int status;   /* an MPI error; 0 if there was none */
    bool fits;    /* every count and displacement that the library reads fits int */
    bool refused; /* one in an array does not fit */
    int count;
    int *counts; /* on the heap, until cshim_narrow_end; NULL where the arrays are not read */
    int *displacements;
};

/* Which ranks an array has an entry for. */
enum cshim_entries {
    CSHIM_NOT_READ, /* none: the library does not look at the array */
    CSHIM_OWN_GROUP,
    CSHIM_PARTNERS, /* the other group in an intercommunicator, else the own group */
    CSHIM_SOURCES,  /* neighbors in the communicator's topology */
    CSHIM_DESTINATIONS
};

/* Arrays that are read at the root only; `root` is what this rank passes. */
enum cshim_entries cshim_entries_at_root(int root, MPI_Comm comm);
/* Arrays of what is sent, which are not read where `sendbuf` is MPI_IN_PLACE. */
enum cshim_entries cshim_entries_sent(const void *sendbuf);

/* A single count; the result has no arrays. */
struct cshim_narrowed cshim_narrow_one(MPI_Count count);
/* Asks the library for the number of entries, which may call the communicator's error handler.
 * Either array may be NULL. The displacement of a count of 0 may have any value. */
struct cshim_narrowed cshim_narrow_arrays(enum cshim_entries entries, const MPI_Count *counts,
                                          const MPI_Aint *displacements, MPI_Comm comm);

/* Returns 0 if MPI_X (`name`) may be called, else an MPI error. It calls the communicator's error
 * handler where arrays are refused. */
int cshim_narrow_judge(const char *name, const struct cshim_narrowed *sent,
                       const struct cshim_narrowed *received, MPI_Comm comm);
/* Frees both sides, and explains an error of MPI_X that comes from a count. Returns `status`. */
int cshim_narrow_end(const char *name, struct cshim_narrowed *sent, struct cshim_narrowed *received,
                     int status);

#endif
