/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the engine that fits the MPI in the process. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "shim/front/front.h"
#include "shim/log.h"

/* The engine's file for the library that holds real_function, or NULL for an ABI without one. Only
 * Open MPI defines ompi_mpi_comm_self. */
static const char *engine_file(const void *real_function)
{
    Dl_info info;
    void *library = NULL;
    if (dladdr(real_function, &info) && info.dli_fname != NULL)
        library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (library == NULL)
        library = dlopen(NULL, RTLD_LAZY);
    if (library == NULL)
        return NULL;
    const char *file = dlsym(library, "ompi_mpi_comm_self") ? "libcompshim-ompi.so" : NULL;
    dlclose(library);
    return file;
}

const struct cshim_mpi_engine *cshim_engine_open(const void *real_function)
{
    char directory[PATH_MAX], path[PATH_MAX + 32];
    const char *file = engine_file(real_function);
    if (file == NULL) {
        cshim_log(CSHIM_LOG_WARN, "this MPI is not Open MPI, and there is no engine for it yet: "
                                  "all calls are passed on");
        return NULL;
    }
    if (!cshim_own_directory(directory, sizeof directory)) {
        cshim_log(CSHIM_LOG_WARN, "cannot tell where libcompshim.so lies: all calls are passed on");
        return NULL;
    }
    snprintf(path, sizeof path, "%s%s", directory, file);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        cshim_log(CSHIM_LOG_WARN, "cannot open the engine (%s): all calls are passed on",
                  dlerror());
        return NULL;
    }
    const struct cshim_mpi_engine *engine = dlsym(handle, CSHIM_ENGINE_SYMBOL);
    if (engine == NULL || engine->abi != CSHIM_ENGINE_ABI) {
        cshim_log(CSHIM_LOG_WARN,
                  "%s is of another version: all calls are passed on; install both "
                  "files of one build",
                  path);
        return NULL;
    }
    return engine;
}
