/* SPDX-License-Identifier: Apache-2.0 */
/* Exported symbols of NCCL. functions.awk writes the wrappers from nccl.def to nccl_wrappers.h;
 * pncclX is never exported.
 *
 * NCCL calls some of its own public functions. So, within a call, calls of the same thread are
 * passed through, unless they come from the object that made the outermost call (nesting.h). */
#include <pthread.h>
#include <stdint.h>

#include "shim/core/environment.h"
#include "shim/front/loader.h"
#include "shim/front/presence.h"
#include "shim/front/resolve.h"
#include "shim/front/nesting.h"
#include "shim/nccl/engine.h"
#include "shim/core/log.h"

/* ncclInternalError, which wrappers return if no real function is found. */
#define NOT_FOUND 3

/* Kind of a wrapper, the first column of nccl.def. */
enum kind { START, COMMUNICATOR, COMPRESSED, BY_RULE, CONFIGURED, ENGINE, CALLED };

struct function {
    const char *name;
    enum kind kind;
};

static struct function functions[CSHIM_NCCL_FUNCTIONS];

/* One NCCL of the process, with the functions found so far. */
struct copy {
    const void *base; /* load address; NULL: unknown */
    union {
        struct cshim_nccl_real functions;
        void *by_index[CSHIM_NCCL_FUNCTIONS];
    } real;
};
_Static_assert(sizeof(struct cshim_nccl_real) == CSHIM_NCCL_FUNCTIONS * sizeof(void *),
               "one pointer for each function");
#define COPIES_MAX 8

static struct copy copies[COPIES_MAX];
static unsigned copy_count;
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER; /* guards copies and copy_count */

static const struct cshim_nccl_engine *engine; /* NULL: every call is passed through */
/* The NCCL that the engine serves; written before `engine`. */
static const struct copy *engine_copy;

static __thread struct cshim_nesting nesting __attribute__((tls_model("initial-exec")));

/* Returns a function's address, and caches it once it is found. */
static void *find_function(struct copy *copy, unsigned index, const void *caller)
{
    void **slot = &copy->real.by_index[index];
    void *address = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (__builtin_expect(address != NULL, 1))
        return address;
    address = cshim_resolve_nccl(functions[index].name, caller);
    if (address != NULL)
        __atomic_store_n(slot, address, __ATOMIC_RELEASE);
    return address;
}

/* Returns the entry of the NCCL loaded at `base`. If a process has more than COPIES_MAX, the last
 * entry serves all further ones. */
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

/* Returns the NCCL to which a caller is bound. Each thread caches callers, because the dynamic
 * linker takes a lock. */
static struct copy *copy_of(const void *caller)
{
    static __thread struct {
        const void *caller;
        struct copy *copy;
    } known[16] __attribute__((tls_model("initial-exec")));
    const size_t place = (uintptr_t)caller / 4 % (sizeof known / sizeof *known);
    if (known[place].caller != caller || known[place].copy == NULL) {
        known[place].copy =
            copy_at(cshim_object_base(cshim_resolve_nccl("ncclGroupStart", caller)));
        known[place].caller = caller;
    }
    return known[place].copy;
}

/* Held while the engine is started. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int tried; /* 1: the engine has been started, or will not be; atomic: groups are frequent */
/* 1: a communicator has been made or is being made, so CUDA is in use, or will be, and a child of
 * fork() cannot use NCCL. */
static int has_communicators;

/* In a child of fork(), stops the engine. The child may start its own, unless the parent has begun
 * to make a communicator. */
static void stop_nccl_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    copies_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (!has_communicators)
        __atomic_store_n(&tried, 0, __ATOMIC_RELAXED);
}

/* Starts the engine, unless the shim is off, at the first call that makes an id or a communicator,
 * or that opens a group: the engine must know the group in which a communicator is made. */
static void start_nccl_engine(struct copy *copy, const void *caller)
{
    static bool registered;
    bool is_beside;
    pthread_mutex_lock(&start_lock);
    if (!tried && !cshim_is_off()) {
        cshim_log_set_level(CSHIM_LOG_WARN);
        cshim_presence_notify();
        const struct cshim_nccl_engine *opened = cshim_engine_open_nccl(&is_beside);
        if (opened != NULL) {
            for (unsigned i = 0; i < CSHIM_NCCL_FUNCTIONS; i++)
                find_function(copy, i, caller);
            opened->start(&copy->real.functions, is_beside);
            if (!registered)
                pthread_atfork(NULL, NULL, stop_nccl_in_child);
            registered = true;
            engine_copy = copy;
            __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&start_lock);
}

/* Returns the engine for a call, or NULL. The engine serves one NCCL; calls of a second one are
 * passed through, with one warning. */
static const struct cshim_nccl_engine *engine_for(struct copy *copy, enum kind kind,
                                                  const void *caller)
{
    static int has_warned;
    const bool starts = kind == START || kind == COMMUNICATOR;
    if (nesting.depth > 1)
        return NULL;
    if (kind == COMMUNICATOR)
        __atomic_store_n(&has_communicators, 1, __ATOMIC_RELAXED);
    if (starts && !__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
        start_nccl_engine(copy, caller);
    const struct cshim_nccl_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (active == NULL || engine_copy == copy)
        return active;
    if (starts && !__atomic_exchange_n(&has_warned, 1, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "a second NCCL is in this process: its calls are passed through");
    return NULL;
}

/* A call in progress, and its target. */
struct call {
    struct cshim_frame frame;
    const struct cshim_nccl_engine *engine; /* NULL: the call is passed through */
    void *real;                             /* NULL: no such function */
};

/* Begins a call: finds its target. */
static void begin_call(struct call *call, enum cshim_nccl_index index, const void *caller)
{
    struct copy *copy = copy_of(caller);
    cshim_enter(&nesting, &call->frame, caller);
    call->engine = NULL;
    call->real = find_function(copy, index, caller);
    if (call->real != NULL)
        call->engine = engine_for(copy, functions[index].kind, caller);
    else
        cshim_log(CSHIM_LOG_ERROR, "no library after libcompshim.so defines %s",
                  functions[index].name);
}

#include "nccl_wrappers.h"
