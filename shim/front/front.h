/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the front: resolver, engine loader, launcher. Needs libc only. */
#ifndef CSHIM_FRONT_H
#define CSHIM_FRONT_H

#include "shim/mpi/engine.h"

#define CSHIM_EXPORT __attribute__((visibility("default")))

/* The engines' files, beside this library. */
#define CSHIM_FILE_OMPI "libcompshim-ompi.so"
#define CSHIM_FILE_MPICH "libcompshim-mpich.so"
#define CSHIM_FILE_ABI "libcompshim-abi.so"
#define CSHIM_FILE_NCCL "libcompshim-nccl.so"

/* Returned where no real function can be found, and nothing is known of the MPI: Open MPI's
 * MPI_ERR_OTHER, and an error class of MPICH's too. */
#define CSHIM_MPI_ERR_OTHER 16

/* Finds the next definition of an MPI function behind this library, for a call that came from
 * `caller` (a return address): the global scope, then the closure of the calling object, then every
 * loaded libmpi. `name` is "MPI_X"; with `bottom` the library's own "PMPI_X" is wanted, past any
 * tool stacked behind this library. Never caches a failure, never calls exit. Returns NULL if there
 * is none. */
void *cshim_resolve(const char *name, const void *caller, int bottom);

/* The same for NCCL's "ncclX": that of the calling object's own NCCL, for several may be in one
 * process, else the next one. */
void *cshim_resolve_nccl(const char *name, const void *caller);

/* Whether two addresses are of one library; false if one is NULL. */
int cshim_same_object(const void *one, const void *other);

/* For libcompshim_dl.so: the wrapper to hand out for `real`, which a lookup of `name` by dlsym
 * found. NULL if there is no wrapper of this name, or if its calls would not reach the library that
 * `real` is in: of several copies in a process each keeps its callers. */
CSHIM_EXPORT void *cshim_front_wrapper(const char *name, const void *real);

/* Whether a function is of a library of Open MPI's, or of a tool that is linked to one. */
int cshim_is_open_mpi(const void *function);

/* Whether the environment switches the shim off. */
int cshim_is_off(void);

/* Tells compshim run, if COMPSHIM_RUN names one on this host, that this process has come to MPI or
 * NCCL with the shim on. Never waits or fails; without the variable it is a look at the
 * environment. */
void cshim_presence_tell(void);

/* The directory this library was loaded from, with a trailing slash; false if unknown. */
int cshim_own_directory(char *buffer, unsigned long size);

/* Opens the engine for the MPI that `real_function` (one of its functions) belongs to, from beside
 * this library. Returns NULL, after one warning, if there is none for it. */
const struct cshim_mpi_engine *cshim_engine_open(const void *real_function);

#endif
