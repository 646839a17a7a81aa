/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that override a function of the C library: the original function, a test of whether
 * the preload is the caller, and the rank of this process before MPI_Init. */
#ifndef BEFORE_LIBC_H
#define BEFORE_LIBC_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Exports a function, so that the preload binds to it instead of the C library's. The program's
 * other functions are hidden. */
#define BEFORE_LIBC __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* Returns the rank from the environment of Open MPI's or MPICH's launcher, or NULL without one. */
static inline const char *launched_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank != NULL ? rank : getenv("PMI_RANK");
}

/* Returns true if the address is in a function of the preload. */
static inline int is_preload(void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != NULL &&
           strstr(info.dli_fname, "libcompshim") != NULL;
}

#endif
