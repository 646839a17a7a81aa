/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that define a function of the C library themselves: the library's own function,
 * whether the preload is the caller, and the rank of this process before MPI_Init. */
#ifndef BEFORE_LIBC_H
#define BEFORE_LIBC_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Marks a function that the preload finds before the C library's. The program's other functions are
 * hidden. */
#define BEFORE_LIBC __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* The rank as Open MPI's or MPICH's launcher says before MPI_Init; NULL without one. */
static inline const char *launched_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank != NULL ? rank : getenv("PMI_RANK");
}

/* Whether the function that an address is in is part of the preload. */
static inline int is_preload(void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != NULL &&
           strstr(info.dli_fname, "libcompshim") != NULL;
}

#endif
