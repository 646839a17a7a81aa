/* SPDX-License-Identifier: Apache-2.0 */
/* libcompshim_dl.so, for programs that fetch functions of MPI or NCCL with dlsym from a library's
 * handle. Preloaded beside libcompshim.so, it hands out the wrappers of libcompshim.so instead.
 *
 * The exported dlsym is a few instructions (dl_stub.S), because the C library tells from the return
 * address which object RTLD_NEXT and RTLD_DEFAULT are meant for. It asks the filter here for a
 * wrapper. Without one it jumps to the real dlsym with its own arguments and return address, so the
 * result and dlerror are those of a direct call. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/front/front.h"

typedef void *dlsym_function(void *handle, const char *name);

/* Called by dl_stub.S: returns the wrapper to hand out, or NULL. Sets cshim_dl_real. */
void *cshim_dl_filter(void *handle, const char *name, const void *caller);
dlsym_function *cshim_dl_real __attribute__((visibility("hidden")));

/* In libcompshim.so; NULL if that is not preloaded, and then nothing is handed out. */
extern __typeof__(cshim_front_wrapper) cshim_front_wrapper __attribute__((weak));

/* Finds dlsym of the C library: the version of glibc 2.34, where it moved into libc.so, or else the
 * first version of x86-64 or of aarch64. */
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

/* Whether the front may have a wrapper of this name. cshim_front_wrapper decides. */
static int is_of_interest(const char *name)
{
    return strncmp(name, "MPI", 3) == 0 || strncmp(name, "PMPI", 4) == 0 ||
           strncmp(name, "nccl", 4) == 0;
}

/* Whether a lookup comes from the shim itself, which looks for the real functions. */
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
    /* A lookup in the global scope finds the wrappers first by itself, and RTLD_NEXT asks for what
     * is behind the caller. */
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !is_of_interest(name) ||
        cshim_front_wrapper == NULL || is_own(caller))
        return NULL;
    const void *real = cshim_dl_real(handle, name);
    return real != NULL ? cshim_front_wrapper(name, real) : NULL;
}
