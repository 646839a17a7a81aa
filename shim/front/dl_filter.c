/* SPDX-License-Identifier: Apache-2.0 */
/* libcompshim_dl.so, for programs that fetch MPI's or NCCL's functions with dlsym from a library's
 * handle: preloaded beside libcompshim.so, it hands out that library's wrappers instead.
 *
 * The exported dlsym is a few instructions (dl_stub.S), since the C library finds out by the return
 * address for whom RTLD_NEXT and RTLD_DEFAULT are meant. It asks the filter here, and where that
 * has no wrapper goes on to the real dlsym as if it had not been there: same arguments, same return
 * address, same dlerror. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/front/front.h"

typedef void *dlsym_function(void *handle, const char *name);

/* For dl_stub.S: the wrapper to hand out, or NULL; after it cshim_dl_real is set. */
void *cshim_dl_filter(void *handle, const char *name, const void *caller);
dlsym_function *cshim_dl_real __attribute__((visibility("hidden")));

/* Bound by the loader if libcompshim.so is preloaded too; without it nothing is handed out. */
extern __typeof__(cshim_front_wrapper) cshim_front_wrapper __attribute__((weak));

/* dlsym of the C library: the version of glibc 2.34, where it moved into libc.so, or the first of
 * this machine. */
static void find_real(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    static const char complaint[] = "compshim: libcompshim_dl.so finds no dlsym in the C library: "
                                    "run without it\n";
    dlsym_function *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && found == NULL; i++)
        found = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (found == NULL) {
        (void)!write(STDERR_FILENO, complaint, sizeof complaint - 1);
        abort();
    }
    __atomic_store_n(&cshim_dl_real, found, __ATOMIC_RELEASE);
}

/* Whether the front may have a wrapper of this name; it has the last word. */
static int is_of_interest(const char *name)
{
    return strncmp(name, "MPI", 3) == 0 || strncmp(name, "PMPI", 4) == 0 ||
           strncmp(name, "nccl", 4) == 0;
}

/* The shim's own lookups are for the real functions. */
static int is_own(const void *address)
{
    Dl_info info;
    const char *slash;
    if (!dladdr(address, &info) || info.dli_fname == NULL)
        return 0;
    slash = strrchr(info.dli_fname, '/');
    return strncmp(slash ? slash + 1 : info.dli_fname, "libcompshim", 11) == 0;
}

__attribute__((visibility("hidden"))) void *cshim_dl_filter(void *handle, const char *name,
                                                            const void *caller)
{
    if (__atomic_load_n(&cshim_dl_real, __ATOMIC_ACQUIRE) == NULL)
        find_real();
    /* The global scope has the preload's wrappers first, and RTLD_NEXT asks for what is behind. */
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !is_of_interest(name) ||
        cshim_front_wrapper == NULL || is_own(caller))
        return NULL;
    const void *real = cshim_dl_real(handle, name);
    return real != NULL ? cshim_front_wrapper(name, real) : NULL;
}
