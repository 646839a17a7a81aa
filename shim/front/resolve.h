/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the real definitions of wrapped functions, and the objects that contain addresses. Needs
 * libc only. All functions are thread-safe and reentrant. */
#ifndef CSHIM_RESOLVE_H
#define CSHIM_RESOLVE_H

#include <stdbool.h>

#include "shim/front/front.h"

/* Returns the real definition of an MPI function; `name` is "MPI_X". Without `bottom` that is the
 * next definition of MPI_X, which may be a tool's, or PMPI_X if there is none; with `bottom` the
 * MPI library's own, PMPI_X. `caller` is the return address of the call, or NULL. Returns NULL if
 * there is no definition; one may be loaded later, so the caller may try again. */
void *cshim_resolve(const char *name, const void *caller, bool bottom);

/* Returns true if `function`, the next definition of MPI_X (`name`), belongs to a tool between this
 * library and the MPI library: a tool defines MPI_X but not PMPI_X. `bottom` is the MPI library's
 * definition. */
bool cshim_is_tool(const void *function, const void *bottom, const char *name);

/* Returns true if the object that contains `address` imports PMPI_X (`name` is "MPI_X"). The
 * dynamic linker usually binds such a reference to this library. */
bool cshim_refers_to_profiled(const void *address, const char *name);

/* Returns true if the object that contains `address` defines MPI_X for Fortran: mpi_x_. */
bool cshim_defines_fortran(const void *address, const char *name);

/* Kind of function that calls PMPI_X (`name` is "MPI_X"): SAME is MPI_X or MPI_X_c itself, also
 * Fortran's; OTHER is another function of MPI; NONE is no function of MPI, or an unknown one. */
enum cshim_wrapper { CSHIM_WRAPPER_SAME, CSHIM_WRAPPER_OTHER, CSHIM_WRAPPER_NONE };
/* Returns the kind of the function that contains the return address `caller`. */
enum cshim_wrapper cshim_wrapper_at(const void *caller, const char *name);
/* Returns the kind of the first function of MPI above `caller` on the stack; NONE if there is none
 * near it. */
enum cshim_wrapper cshim_wrapper_above(const void *caller, const char *name);

/* Returns a definition of MPI_X (`name`) that precedes this library's: in the program, or in a tool
 * that is preloaded before. Returns NULL if there is none. */
const void *cshim_preceding(const char *name);

/* Returns the file name of the object that contains `address`, or NULL. */
const char *cshim_object_file(const void *address);

/* Returns NCCL's own definition of `name` ("ncclX"): in the NCCL to which the object of `caller` is
 * bound, or else in another one of the process; NULL if there is none. An NCCL without pncclX is
 * used only if no other one has it. A process may contain several NCCLs, and each object keeps its
 * own. */
void *cshim_resolve_nccl(const char *name, const void *caller);

/* Like cshim_resolve_nccl(), for a function of gloo, by its C++ symbol. */
void *cshim_resolve_gloo(const char *symbol, const void *caller);

/* Returns the load address of the object that contains `address`, or NULL. */
const void *cshim_object_base(const void *address);

/* Opens the loaded object that contains `address`, with additional dlopen() flags; if that is the
 * program itself, without them, for a search of the global scope. Returns a handle for dlsym(),
 * which the caller may close; NULL if no object contains `address`. */
void *cshim_open_object(const void *address, int flags);

/* A symbol that Open MPI defines, and no other MPI. */
#define CSHIM_OPEN_MPI_SYMBOL "ompi_mpi_comm_self"
/* Returns true if a function is in a library of Open MPI, or in a tool that is linked to one. */
bool cshim_is_open_mpi(const void *function);

/* Returns true if both addresses are in one loaded object. */
bool cshim_same_object(const void *one, const void *other);
/* Like cshim_same_object(), with a cache of the thread's last pair: tools and libraries call from
 * the same places again and again. */
bool cshim_same_caller(const void *one, const void *other);

/* Returns true if `text` begins with one of the strings, a list that ends with NULL. */
bool cshim_begins_with_one_of(const char *text, const char *const *beginnings);

/* For libcompshim_dl.so: returns the wrapper that replaces `real`, which dlsym() has found for
 * `name`. Returns NULL if there is none, or if `real` is not in the MPI or NCCL library that the
 * wrapper's calls reach, for example in a tool. */
CSHIM_EXPORT void *cshim_front_wrapper(const char *name, const void *real);

#endif
