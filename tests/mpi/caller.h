/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that stand before a function of the C library in their own program: who calls it, the
 * function behind, and which rank this will be. */
#ifndef CALLER_H
#define CALLER_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* What the preload is to find before the C library's; the rest of the program is hidden. */
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
