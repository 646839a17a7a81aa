/* SPDX-License-Identifier: Apache-2.0 */
/* libcompshim_dl.so, for programs that fetch functions of MPI or NCCL with dlsym from a library's
 * handle. Preloaded beside libcompshim.so, it hands out the wrappers of libcompshim.so instead.
 *
 * The C library tells from the return address which object RTLD_NEXT and RTLD_DEFAULT are meant
 * for. So the exported dlsym ends with a jump to the real one, with its own arguments and return
 * address, and the result and dlerror are those of a direct call. The compiler makes a jump of the
 * call in a return statement where it optimises. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/front/front.h"

typedef void *dlsym_function(void *handle, const char *name);

static dlsym_function *real_dlsym; /* atomic */

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
    __atomic_store_n(&real_dlsym, found, __ATOMIC_RELEASE);
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

/* The wrapper to hand out; NULL where the real dlsym is to answer, which is known then. */
static void *find_wrapper(void *handle, const char *name, const void *caller)
{
    if (__atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE) == NULL)
        find_real();
    /* A lookup in the global scope finds the wrappers first by itself, and RTLD_NEXT asks for what
     * is behind the caller. */
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !is_of_interest(name) ||
        cshim_front_wrapper == NULL || is_own(caller))
        return NULL;
    const void *real = real_dlsym(handle, name);
    return real != NULL ? cshim_front_wrapper(name, real) : NULL;
}

CSHIM_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    void *wrapper = find_wrapper(handle, name, __builtin_return_address(0));
    return wrapper != NULL ? wrapper : real_dlsym(handle, name);
}
