/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's exported symbols and nothing else; pnccl* is never exported. NCCL calls some of its own
 * public names: while a call of this thread is under way, those go straight to NCCL. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/nccl/engine.h"
#include "shim/front/front.h"
#include "shim/core/log.h"

/* ncclInternalError: where no real function can be found. */
#define NCCL_INTERNAL_ERROR 3

/* An ncclUniqueId, which is passed by value. */
struct cshim_nccl_id {
    char bytes[128];
};

/* One NCCL of the process: of several, each caller has its own. */
struct copy {
    const void *base; /* where it is loaded; NULL: not known */
    struct cshim_nccl_real real;
};
#define COPIES_MAX 8

static struct copy copies[COPIES_MAX];
static unsigned copy_count; /* published after its copy */
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct cshim_nccl_engine *engine; /* NULL: pass everything on */
static const struct copy *engine_copy;         /* the one it works for; set before engine */
static __thread int depth __attribute__((tls_model("initial-exec")));

static void *find(void **slot, const char *name, const void *caller)
{
    void *address = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (__builtin_expect(address != NULL, 1))
        return address;
    address = cshim_resolve_nccl(name, caller);
    if (address != NULL)
        __atomic_store_n(slot, address, __ATOMIC_RELEASE);
    return address;
}

static void *find_or_complain(void **slot, const char *name, const void *caller)
{
    void *address = find(slot, name, caller);
    if (address == NULL)
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", name);
    return address;
}

static const void *base_of(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* The copy loaded at base; the last one's place serves all that find no other. */
static struct copy *copy_at(const void *base)
{
    pthread_mutex_lock(&copies_lock);
    unsigned index = 0;
    while (index < copy_count && copies[index].base != base)
        index++;
    if (index == COPIES_MAX)
        index--;
    if (index == copy_count) {
        copies[index].base = base;
        copy_count++;
    }
    pthread_mutex_unlock(&copies_lock);
    return &copies[index];
}

/* The NCCL that a caller's calls are meant for. Callers are remembered by thread: asking the loader
 * takes a lock. */
static struct copy *copy_of(const void *caller)
{
    static __thread struct {
        const void *caller;
        struct copy *copy;
    } known[16] __attribute__((tls_model("initial-exec")));
    const size_t place = (uintptr_t)caller / 4 % (sizeof known / sizeof *known);
    if (known[place].caller != caller || known[place].copy == NULL) {
        known[place].copy = copy_at(base_of(cshim_resolve_nccl("ncclGroupStart", caller)));
        known[place].caller = caller;
    }
    return known[place].copy;
}

static void find_all(struct copy *copy, const void *caller)
{
#define FIND(name, ...) find(&copy->real.name, "nccl" #name, caller);
    CSHIM_NCCL_WRAPPED(FIND)
    CSHIM_NCCL_CALLED(FIND)
#undef FIND
}

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the start */
static int tried;              /* to start the engine; atomic, for groups are opened all the time */
static int communicators_made; /* or about to be: CUDA is in use, and is of no use in a child */

/* A process may make an id and then fork its ranks: for them the engine starts anew. */
static void stop_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    copies_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (!communicators_made)
        __atomic_store_n(&tried, 0, __ATOMIC_RELAXED);
}

/* Whether an engine for MPI is in the process. */
static int is_beside_mpi(const char *directory)
{
    static const char *const engines[] = {CSHIM_FILE_OMPI, CSHIM_FILE_MPICH, CSHIM_FILE_ABI};
    void *handle = NULL;
    for (unsigned i = 0; i < sizeof engines / sizeof *engines && handle == NULL; i++) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s%s", directory, engines[i]);
        handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    }
    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}

static const struct cshim_nccl_engine *open_engine(const char *directory)
{
    char path[PATH_MAX + sizeof CSHIM_FILE_NCCL];
    snprintf(path, sizeof path, "%s" CSHIM_FILE_NCCL, directory);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        cshim_log(CSHIM_LOG_WARN, "cannot open the engine for NCCL (%s): its calls are passed on",
                  dlerror());
        return NULL;
    }
    const struct cshim_nccl_engine *opened = dlsym(handle, CSHIM_NCCL_ENGINE_SYMBOL);
    if (opened == NULL || opened->abi != CSHIM_NCCL_ENGINE_ABI) {
        cshim_log(CSHIM_LOG_WARN,
                  "%s is of another version: NCCL is passed on; install both files of one build",
                  path);
        return NULL;
    }
    return opened;
}

/* At the first call that makes an id or a communicator, or opens a group: the engine must know of
 * the group in which one is made. */
static void start_engine(struct copy *copy, const void *caller)
{
    static int registered;
    char directory[PATH_MAX];
    pthread_mutex_lock(&start_lock);
    if (!tried && !cshim_is_off() && cshim_own_directory(directory, sizeof directory)) {
        cshim_presence_tell();
        const struct cshim_nccl_engine *opened = open_engine(directory);
        if (opened != NULL) {
            find_all(copy, caller);
            opened->start(&copy->real, is_beside_mpi(directory));
            if (!registered)
                pthread_atfork(NULL, NULL, stop_in_child);
            registered = 1;
            engine_copy = copy;
            __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&start_lock);
}

static int makes_communicator(const char *name)
{
    return strncmp(name, "CommInit", 8) == 0;
}

static int begins(const char *name)
{
    return makes_communicator(name) || strcmp(name, "GetUniqueId") == 0 ||
           strcmp(name, "GroupStart") == 0;
}

/* The engine works for one NCCL; a second one's calls stay native, which is said once. */
static const struct cshim_nccl_engine *engine_for(struct copy *copy, const char *name,
                                                  const void *caller)
{
    static int said;
    if (depth > 0)
        return NULL;
    if (makes_communicator(name))
        __atomic_store_n(&communicators_made, 1, __ATOMIC_RELAXED);
    if (begins(name) && !__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
        start_engine(copy, caller);
    const struct cshim_nccl_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (active == NULL || engine_copy == copy)
        return active;
    if (begins(name) && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "a second NCCL is in this process: its calls are passed on");
    return NULL;
}

#define WRAP(name, parameters, arguments)                                                          \
    CSHIM_EXPORT int nccl##name parameters;                                                        \
    int nccl##name parameters                                                                      \
    {                                                                                              \
        const void *caller = __builtin_return_address(0);                                          \
        struct copy *copy = copy_of(caller);                                                       \
        __typeof__(nccl##name) *function =                                                         \
            find_or_complain(&copy->real.name, "nccl" #name, caller);                              \
        if (function == NULL)                                                                      \
            return NCCL_INTERNAL_ERROR;                                                            \
        const struct cshim_nccl_engine *active = engine_for(copy, #name, caller);                  \
        if (active != NULL)                                                                        \
            function = active->functions.name;                                                     \
        depth++;                                                                                   \
        const int status = function arguments;                                                     \
        depth--;                                                                                   \
        return status;                                                                             \
    }
CSHIM_NCCL_WRAPPED(WRAP)
