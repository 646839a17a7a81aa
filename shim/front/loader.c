/* SPDX-License-Identifier: Apache-2.0 */
/* Opens engines: the shared object in this library's folder that fits the MPI of the process, or
 * the one for NCCL or gloo. An engine exports one symbol, a struct of functions (shim/mpi/engine.h,
 * shim/nccl/engine.h, shim/gloo/engine.h), whose first member is its version. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "shim/front/loader.h"
#include "shim/front/resolve.h"
#include "shim/gloo/engine.h"
#include "shim/mpi/engine.h"
#include "shim/nccl/engine.h"
#include "shim/core/log.h"

#define FILE_OMPI "libcompshim-ompi.so"
#define FILE_MPICH "libcompshim-mpich.so"
#define FILE_ABI "libcompshim-abi.so"
#define FILE_NCCL "libcompshim-nccl.so"
#define FILE_GLOO "libcompshim-gloo.so"

/* A function that identifies the MPI library and that tools do not wrap. */
#define PROBE "PMPI_Get_library_version"

/* Writes the path of a file in this library's folder. Returns false if the folder is unknown or the
 * path is too long. */
static bool find_beside(const char *file, char *path, size_t size)
{
    Dl_info info;
    if (!dladdr((const void *)find_beside, &info) || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const int length = slash ? (int)(slash - info.dli_fname) + 1 : 0;
    return snprintf(path, size, "%.*s%s", length, info.dli_fname, file) < (int)size;
}

/* Opens an engine's file. Returns its struct, or NULL after a warning. */
static const void *open_engine(const char *file, const char *symbol, unsigned abi,
                               const char *library)
{
    char path[PATH_MAX + 32];
    if (!find_beside(file, path, sizeof path)) {
        cshim_log(CSHIM_LOG_WARN,
                  "cannot find the folder of libcompshim.so: all calls are passed through");
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        cshim_log(CSHIM_LOG_WARN,
                  "cannot open the engine for %s (%s): its calls are passed through", library,
                  dlerror());
        return NULL;
    }
    const unsigned *engine = dlsym(handle, symbol);
    if (engine == NULL || *engine != abi) {
        cshim_log(
            CSHIM_LOG_WARN,
            "%s is of another version: calls of %s are passed through; install both files of one "
            "build",
            path, library);
        return NULL;
    }
    return engine;
}

/* Returns true if a library is MPICH or a known MPI with its ABI, by the beginning of its version
 * text. A translator between ABIs has other handles; its version text begins differently. */
static bool is_mpich(int (*get_version)(char *, int *))
{
    static const char *const beginnings[] = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                             "MPI VERSION    : CRAY MPICH", NULL};
    char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH is 8192 */
    int length = 0;
    return get_version != NULL && get_version(text, &length) == 0 &&
           cshim_begins_with_one_of(text, beginnings);
}

/* Returns true if a library has the standard ABI of MPI 5. Libraries with another ABI return -1, or
 * lack the function. */
static bool has_standard_abi(int (*get_abi)(int *, int *))
{
    int major = -1, minor = -1;
    return get_abi != NULL && get_abi(&major, &minor) == 0 && major > 0;
}

/* Finds the MPI library that contains real_function, or to which the tool that contains it is
 * linked, or else one in the global scope. Returns the file name of its engine, or NULL; sets
 * *probe to the library's PROBE. */
static const char *find_file(const void *real_function, int (**probe)(char *, int *))
{
    const char *file = NULL;
    void *library = cshim_open_object(real_function, 0);
    if (library == NULL || dlsym(library, PROBE) == NULL)
        library = dlopen(NULL, RTLD_LAZY);
    if (library == NULL)
        return NULL;
    *probe = (int (*)(char *, int *))dlsym(library, PROBE);
    if (has_standard_abi((int (*)(int *, int *))dlsym(library, "PMPI_Abi_get_version")))
        file = FILE_ABI;
    else if (dlsym(library, CSHIM_OPEN_MPI_SYMBOL) != NULL)
        file = FILE_OMPI;
    else if (is_mpich(*probe))
        file = FILE_MPICH;
    dlclose(library);
    return file;
}

/* Returns true if one of the engines, a list that ends with NULL, is open. */
static bool is_one_open(const char *const *engines)
{
    char path[PATH_MAX + 32];
    void *handle = NULL;
    for (; *engines != NULL && handle == NULL; engines++)
        if (find_beside(*engines, path, sizeof path))
            handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}

const struct cshim_mpi_engine *cshim_engine_open_mpi(const void *real_function, bool *is_beside)
{
    static const char *const others[] = {FILE_NCCL, FILE_GLOO, NULL};
    int (*probe)(char *, int *) = NULL;
    const char *file = find_file(real_function, &probe);
    if (file == NULL) {
        cshim_log(CSHIM_LOG_WARN, "this MPI is neither Open MPI nor of the MPICH or MPI-5 ABI, and "
                                  "there is no engine for it: all calls are passed through");
        return NULL;
    }
    /* Makes the MPI's symbols global. The engines for MPICH and the standard ABI find them there:
     * they are not linked to an MPI library, because libraries of one ABI have several file names.
     */
    (void)cshim_open_object((const void *)probe, RTLD_GLOBAL);
    if (dlsym(RTLD_DEFAULT, PROBE) != (void *)probe) {
        cshim_log(CSHIM_LOG_WARN, "there are two MPI libraries in this process, and the program "
                                  "uses the second: all calls are passed through");
        return NULL;
    }
    *is_beside = is_one_open(others);
    return open_engine(file, CSHIM_ENGINE_SYMBOL, CSHIM_ENGINE_ABI, "MPI");
}

const struct cshim_nccl_engine *cshim_engine_open_nccl(bool *is_beside)
{
    static const char *const others[] = {FILE_OMPI, FILE_MPICH, FILE_ABI, FILE_GLOO, NULL};
    *is_beside = is_one_open(others);
    return open_engine(FILE_NCCL, CSHIM_NCCL_ENGINE_SYMBOL, CSHIM_NCCL_ENGINE_ABI, "NCCL");
}

const struct cshim_gloo_engine *cshim_engine_open_gloo(bool *is_beside)
{
    static const char *const others[] = {FILE_OMPI, FILE_MPICH, FILE_ABI, FILE_NCCL, NULL};
    *is_beside = is_one_open(others);
    return open_engine(FILE_GLOO, CSHIM_GLOO_ENGINE_SYMBOL, CSHIM_GLOO_ENGINE_ABI, "gloo");
}
