/* SPDX-License-Identifier: Apache-2.0 */
/* libcompshim_dl.so, for programs that fetch functions of MPI or NCCL by dlsym() from a library's
 * handle. Preloaded together with libcompshim.so, it returns the wrappers of libcompshim.so
 * instead.
 *
 * For RTLD_NEXT and RTLD_DEFAULT the C library finds the calling object by the return address. So
 * the exported dlsym() ends with a jump to the real one, with its arguments and return address, and
 * result and dlerror() are those of a direct call. An optimising compiler compiles the call in its
 * return statement to that jump. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/front/resolve.h"

typedef void *dlsym_function(void *handle, const char *name);

static dlsym_function *real_dlsym; /* atomic */

/* defined in libcompshim.so; NULL if that is not preloaded: then no wrapper is returned */
extern __typeof__(cshim_front_wrapper) cshim_front_wrapper __attribute__((weak));

/* Finds the C library's dlsym(): the version of glibc 2.34, which moved it into libc.so, otherwise
 * the first version on x86-64 or aarch64. */
static void find_real(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    static const char message[] = "compshim: libcompshim_dl.so finds no dlsym in the C library: "
                                  "run without it\n";
    dlsym_function *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0] && found == NULL; i++)
        found = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (found == NULL) {
        (void)!write(STDERR_FILENO, message, sizeof message - 1);
        abort();
    }
    __atomic_store_n(&real_dlsym, found, __ATOMIC_RELEASE);
}

/* Returns true if the front may have a wrapper of this name; cshim_front_wrapper() decides. */
static int may_have_wrapper(const char *name)
{
    return strncmp(name, "MPI", 3) == 0 || strncmp(name, "PMPI", 4) == 0 ||
           strncmp(name, "nccl", 4) == 0;
}

/* Returns true if the lookup comes from the shim itself, which searches for the real functions. */
static int is_own_caller(const void *address)
{
    Dl_info info;
    const char *slash;
    if (!dladdr(address, &info) || info.dli_fname == NULL)
        return 0;
    slash = strrchr(info.dli_fname, '/');
    return strncmp(slash ? slash + 1 : info.dli_fname, "libcompshim", 11) == 0;
}

/* Returns the wrapper that answers a lookup, or NULL if the real dlsym() must answer. Sets
 * real_dlsym. */
static void *find_wrapper(void *handle, const char *name, const void *caller)
{
    if (__atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE) == NULL)
        find_real();
    /* A lookup in the global scope finds the preloaded wrappers anyway; RTLD_NEXT asks for the
     * definition after the caller. */
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !may_have_wrapper(name) ||
        cshim_front_wrapper == NULL || is_own_caller(caller))
        return NULL;
    const void *real = real_dlsym(handle, name);
    return real != NULL ? cshim_front_wrapper(name, real) : NULL;
}

CSHIM_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    void *wrapper = find_wrapper(handle, name, __builtin_return_address(0));
    return wrapper != NULL ? wrapper : real_dlsym(handle, name);
}
