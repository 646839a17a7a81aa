/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the front beside the exported symbols: the resolver, the loader of engines, and the
 * message to compshim run. All of it needs libc only, is reentrant and may be called by any thread.
 */
#ifndef CSHIM_FRONT_H
#define CSHIM_FRONT_H

#include <stdbool.h>

struct cshim_mpi_engine;
struct cshim_nccl_engine;
struct cshim_gloo_engine;

#define CSHIM_EXPORT __attribute__((visibility("default")))

/* What a wrapper returns where no real function is found and nothing is known of the MPI:
 * MPI_ERR_OTHER of Open MPI, which is an error class of MPICH too. */
#define CSHIM_MPI_ERR_OTHER 16

/* The resolver, resolve.c ---------------------------------------------------------------------- */

/* Finds the definition of an MPI function behind this library, for a call that came from the return
 * address `caller` (NULL: not known). It is the next definition of MPI_X, which may be another
 * tool's; with `bottom` it is PMPI_X, the MPI library's own. `name` is "MPI_X" in both cases.
 * Returns NULL if there is none; a library may be loaded later, so the caller may ask again. */
void *cshim_resolve(const char *name, const void *caller, bool bottom);

/* Returns true if `function`, the next definition of MPI_X (`name`), belongs to a tool, which lies
 * between this library and the MPI library. A tool defines MPI_X and not PMPI_X. `bottom` is the
 * MPI library's definition. */
bool cshim_is_tool(const void *function, const void *bottom, const char *name);

/* Returns true if the object that holds `address` refers to PMPI_X (`name` is "MPI_X") as a symbol
 * that another object defines. The loader binds such a reference to this library. */
bool cshim_refers_to_profiled(const void *address, const char *name);

/* Returns true if the object that holds `address` defines MPI_X for Fortran: mpi_x_. */
bool cshim_defines_fortran(const void *address, const char *name);

/* Finds whether a call of PMPI_X (`name` is "MPI_X") comes from a wrapper: MPI_X or MPI_X_c itself,
 * also Fortran's, or another function of MPI. */
enum cshim_wrapper { CSHIM_WRAPPER_SAME, CSHIM_WRAPPER_OTHER, CSHIM_WRAPPER_NONE };
/* The first looks at the function that holds the return address `caller` only. The second also
 * looks at those that have called this one, through the stack. */
enum cshim_wrapper cshim_wrapper_at(const void *caller, const char *name);
enum cshim_wrapper cshim_wrapper_above(const void *caller, const char *name);

/* Finds a definition of MPI_X (`name`) that precedes this library's: in the program, or in a tool
 * that is preloaded before. Returns NULL if there is none. */
const void *cshim_preceding(const char *name);

/* The file name of the object that holds `address`; NULL if `address` is in none. */
const char *cshim_object_file(const void *address);

/* Finds the definition of the NCCL function `name` ("ncclX") that the object of `caller` is bound
 * to. A process may hold several NCCLs, and each object keeps its own. Returns NULL if there is
 * none. */
void *cshim_resolve_nccl(const char *name, const void *caller);

/* The same for a function of gloo, by its C++ symbol. */
void *cshim_resolve_gloo(const char *symbol, const void *caller);

/* The address at which the object that holds `address` is loaded; NULL if `address` is in none. */
const void *cshim_object_base(const void *address);

/* Opens the loaded object that holds `address`, with further `flags` of dlopen. Returns a handle
 * for dlsym, which the caller may close; NULL if `address` is in no object. */
void *cshim_open_object(const void *address, int flags);

/* Only Open MPI defines this. */
#define CSHIM_OPEN_MPI_SYMBOL "ompi_mpi_comm_self"
/* Whether a function is in a library of Open MPI, or in a tool that is linked to one. */
bool cshim_is_open_mpi(const void *function);

/* Whether both addresses are in one loaded object. */
bool cshim_same_object(const void *one, const void *other);
/* The same of two callers, for which the loader is asked once as long as a thread's stay the same:
 * a tool or the library calls from the same place again and again. */
bool cshim_same_caller(const void *one, const void *other);

/* Whether `text` begins with one of the strings up to NULL. */
bool cshim_begins_with_one_of(const char *text, const char *const *beginnings);

/* For libcompshim_dl.so: the wrapper to hand out in place of `real`, which a lookup of `name` by
 * dlsym found. Returns NULL if there is no wrapper of this name, or if its calls would not reach
 * the library that holds `real`. */
CSHIM_EXPORT void *cshim_front_wrapper(const char *name, const void *real);

/* The loader, loader.c ------------------------------------------------------------------------- */

/* Opens the engine for the MPI that `real_function` belongs to. Returns NULL, after a warning, if
 * there is none or it cannot be used. */
const struct cshim_mpi_engine *cshim_engine_open_mpi(const void *real_function);

/* Open the engine for NCCL or gloo, and tell whether another engine that reports is in the process
 * too: one for MPI, for gloo also NCCL's. Both return NULL, after a warning, if it cannot be used.
 */
const struct cshim_nccl_engine *cshim_engine_open_nccl(bool *beside_mpi);
const struct cshim_gloo_engine *cshim_engine_open_gloo(bool *is_beside);

/* For the address sanitizer, sanitizer.c ------------------------------------------------------- */

CSHIM_EXPORT const char *__asan_default_options(void);

/* The message to compshim run, presence.c ------------------------------------------------------ */

/* Tells compshim run, where COMPSHIM_RUN names one on this host, that this process uses MPI or NCCL
 * with the shim on. Never waits and never fails. */
void cshim_presence_tell(void);

#endif
