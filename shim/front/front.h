/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the front: resolver, engine loader, launcher. Needs libc only. */
#ifndef CSHIM_FRONT_H
#define CSHIM_FRONT_H

#include "shim/engine.h"

#define CSHIM_EXPORT __attribute__((visibility("default")))

/* MPI_ERR_OTHER of the MPI in the process cannot be known without its headers; this is Open MPI's
 * and MPICH's common value. Returned where no real function can be found. */
#define CSHIM_MPI_ERR_OTHER 16

/* Finds the next definition of an MPI function behind this library, for a call that came from
 * `caller` (a return address): the global scope, then the closure of the calling object, then every
 * loaded libmpi. `name` is "MPI_X"; with `bottom` the library's own "PMPI_X" is wanted, past any
 * tool stacked behind this library. Never caches a failure, never calls exit. Returns NULL if there
 * is none. */
void *cshim_resolve(const char *name, const void *caller, int bottom);

/* The directory this library was loaded from, with a trailing slash; false if unknown. */
int cshim_own_directory(char *buffer, unsigned long size);

/* Opens the engine for the MPI that `real_function` (one of its functions) belongs to, from beside
 * this library. Returns NULL, after one warning, if there is none for it. */
const struct cshim_mpi_engine *cshim_engine_open(const void *real_function);

#endif
