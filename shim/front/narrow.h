/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the front: large counts and displacements as ints, for an MPI that has only functions of
 * those. A single count that no int holds becomes -1: the library refuses that by the caller's
 * error handler, unless it is one that it does not look at. Not every library looks at all counts
 * of an array: one with an entry that no int holds is refused here. */
#ifndef CSHIM_NARROW_H
#define CSHIM_NARROW_H

#include <stdbool.h>

#include "shim/mpi/functions.h"

/* What one side of a call sends or gets: one count, or arrays on the heap. */
struct cshim_narrowed {
    int status;   /* not 0: an MPI error, and there are no arrays */
    bool fits;    /* no count was too large, ... */
    bool refused; /* ... or one in an array was, or a displacement */
    int count;
    int *counts;
    int *displacements;
};

/* For whom arrays have an entry each: the ranks of the communicator's own group; those that a call
 * speaks to, which are another group's in a communicator between two; neighbors. */
enum cshim_entries {
    CSHIM_NOT_READ, /* the arrays may be anything */
    CSHIM_OWN_GROUP,
    CSHIM_PARTNERS,
    CSHIM_SOURCES,
    CSHIM_DESTINATIONS
};

/* The int of a count; sets *fits to false if there is none, and else leaves it. */
int cshim_narrow_count(cshim_count count, bool *fits);
struct cshim_narrowed cshim_narrow_one(cshim_count count);
/* Asks the library how many entries there are, which may call the caller's error handler. Either
 * array may be NULL. Where nothing is counted any displacement will do. The arrays are the
 * caller's, to free. */
struct cshim_narrowed cshim_narrow_arrays(enum cshim_entries entries, const cshim_count *counts,
                                          const cshim_displacement *displacements,
                                          cshim_comm_handle comm);
void cshim_narrowed_free(struct cshim_narrowed *narrowed);
/* Tells the communicator's error handler of MPI_ERR_COUNT; returns that. */
int cshim_narrow_refuse(cshim_comm_handle comm);

/* Whose arrays the library reads, where that is only the root's (`root` as this rank passes it), or
 * not those of what is sent from the receive buffer. */
enum cshim_entries cshim_narrow_at_root(int root, cshim_comm_handle comm);
enum cshim_entries cshim_narrow_sent(const void *sendbuf);

#endif
