/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that stand before a function of the C library in their own program: who calls it, and
 * the function behind. */
#ifndef CALLER_H
#define CALLER_H

#include <dlfcn.h>
#include <string.h>

/* What the preload is to find before the C library's; the rest of the program is hidden. */
#define BEFORE_LIBC __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* Whether the function that an address is in is part of the preload. */
static inline int is_preload(void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && info.dli_fname != NULL &&
           strstr(info.dli_fname, "libcompshim") != NULL;
}

#endif
