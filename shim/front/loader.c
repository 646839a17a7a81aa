/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the engine that fits the MPI in the process. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/front/front.h"
#include "shim/core/log.h"

/* A function that says which MPI it is of, and that no tool wraps. */
#define PROBE "PMPI_Get_library_version"

/* The MPI in the process. */
struct target {
    const char *file; /* of the engine for it */
    int (*probe)(char *, int *);
};

static int begins_with_one_of(const char *text, const char *const *beginnings)
{
    for (; *beginnings != NULL; beginnings++) {
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0)
            return 1;
    }
    return 0;
}

/* MPICH and those that keep its ABI. Translators between ABIs, which have handles of their own,
 * begin with other words. */
static int is_mpich(int (*get_version)(char *, int *))
{
    static const char *const beginnings[] = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                             "MPI VERSION    : CRAY MPICH", NULL};
    char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH */
    int length = 0;
    return get_version != NULL && get_version(text, &length) == 0 &&
           begins_with_one_of(text, beginnings);
}

/* Whether a library has the standard ABI of MPI 5. One with an ABI of its own says -1. */
static int has_standard_abi(int (*get_abi)(int *, int *))
{
    int major = -1, minor = -1;
    return get_abi != NULL && get_abi(&major, &minor) == 0 && major > 0;
}

/* Opens the library that holds a function; NULL if it is the program itself. */
static void *library_of(const void *function)
{
    Dl_info info;
    if (!dladdr(function, &info) || info.dli_fname == NULL)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

/* Only Open MPI defines this. */
static int has_open_mpi(void *library)
{
    return dlsym(library, "ompi_mpi_comm_self") != NULL;
}

int cshim_is_open_mpi(const void *function)
{
    void *library = library_of(function);
    if (library == NULL)
        return 0;
    const int is = has_open_mpi(library);
    dlclose(library);
    return is;
}

/* Finds the MPI that holds real_function, or that a tool which holds it is linked to, and the file
 * of its engine: NULL for an ABI without one. */
static struct target find_target(const void *real_function)
{
    struct target target = {NULL, NULL};
    void *library = library_of(real_function);
    if (library == NULL || dlsym(library, PROBE) == NULL)
        library = dlopen(NULL, RTLD_LAZY);
    if (library == NULL)
        return target;
    target.probe = (int (*)(char *, int *))dlsym(library, PROBE);
    if (has_standard_abi((int (*)(int *, int *))dlsym(library, "PMPI_Abi_get_version")))
        target.file = CSHIM_FILE_ABI;
    else if (has_open_mpi(library))
        target.file = CSHIM_FILE_OMPI;
    else if (is_mpich(target.probe))
        target.file = CSHIM_FILE_MPICH;
    dlclose(library);
    return target;
}

/* The engines for MPICH and the standard ABI are linked to no MPI library: those that share an ABI
 * have it under several file names. So the one that is here must be in the global scope, wherever
 * the program has it. Returns false if another MPI comes first there: an engine's calls would go to
 * that. */
static int make_global(const struct target *target)
{
    Dl_info info;
    if (dladdr((const void *)target->probe, &info) && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
    return dlsym(RTLD_DEFAULT, PROBE) == (void *)target->probe;
}

int cshim_is_off(void)
{
    const char *value = getenv("COMPSHIM");
    return value != NULL && (strcmp(value, "off") == 0 || strcmp(value, "0") == 0);
}

const struct cshim_mpi_engine *cshim_engine_open(const void *real_function)
{
    char directory[PATH_MAX], path[PATH_MAX + 32];
    const struct target target = find_target(real_function);
    if (target.file == NULL) {
        cshim_log(CSHIM_LOG_WARN, "this MPI is neither Open MPI nor of the MPICH or MPI-5 ABI, and "
                                  "there is no engine for it: all calls are passed on");
        return NULL;
    }
    if (!cshim_own_directory(directory, sizeof directory)) {
        cshim_log(CSHIM_LOG_WARN, "cannot tell where libcompshim.so lies: all calls are passed on");
        return NULL;
    }
    snprintf(path, sizeof path, "%s%s", directory, target.file);
    if (!make_global(&target)) {
        cshim_log(CSHIM_LOG_WARN, "there are two MPI libraries in this process, and the program "
                                  "uses the second: all calls are passed on");
        return NULL;
    }
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
