/* SPDX-License-Identifier: Apache-2.0 */
/* Exported symbols of gloo, which are C++ functions. functions.awk writes the wrappers from
 * gloo.def to gloo_wrappers.h; this file has their common code.
 *
 * gloo throws exceptions. They pass through these functions, which have nothing to clean up. */
#include <pthread.h>
#include <stdlib.h>

#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/front/loader.h"
#include "shim/front/presence.h"
#include "shim/front/resolve.h"
#include "shim/gloo/engine.h"

struct function {
    const char *name; /* C++ symbol */
};

static struct function functions[CSHIM_GLOO_FUNCTIONS];

static const struct cshim_gloo_engine *engine; /* NULL: every call is passed through; atomic */
static const void *engine_base;                /* load address of the gloo that the engine serves */
/* Held while the engine is started. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int tried; /* 1: the engine has been started, or will not be; atomic */

/* Lets a child of fork() start an engine of its own: gloo's threads and connections stay in the
 * parent. */
static void stop_gloo_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&tried, 0, __ATOMIC_RELAXED);
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Opens and starts the engine at the first call, unless the shim is off. */
static void start_gloo_engine(const void *caller)
{
    static bool registered;
    bool is_beside;
    cshim_gloo_function allreduce =
        (cshim_gloo_function)cshim_resolve_gloo(functions[CSHIM_INDEX_gloo_allreduce].name, caller);
    pthread_mutex_lock(&start_lock);
    if (!tried && allreduce != NULL && !cshim_is_off()) {
        cshim_log_set_level(CSHIM_LOG_WARN);
        cshim_presence_notify();
        const struct cshim_gloo_engine *opened = cshim_engine_open_gloo(&is_beside);
        if (opened != NULL) {
            opened->start(allreduce, is_beside);
            if (!registered)
                pthread_atfork(NULL, NULL, stop_gloo_in_child);
            registered = true;
            engine_base = cshim_object_base((const void *)allreduce);
            __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&start_lock);
}

/* Target of a call. */
struct call {
    cshim_gloo_function real;
    const struct cshim_gloo_engine *engine; /* NULL: the call is passed through */
};

/* Warns once that the calls of a second gloo are passed through, because the engine serves one, and
 * counts a call that is an all-reduce. */
static void pass_second(const struct cshim_gloo_engine *active, enum cshim_gloo_index index)
{
    static int has_warned;
    if (!__atomic_exchange_n(&has_warned, 1, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "a second gloo is in this process: its calls are passed through");
    if (index == CSHIM_INDEX_gloo_allreduce)
        active->count_unread(CSHIM_REASON_SECOND_LIBRARY);
}

/* Finds the target of a call, and starts the engine at the first one. Each object that calls gloo
 * may be bound to another gloo. A thread caches its last lookup of each function, because the
 * dynamic linker takes a lock. */
static struct call begin_call(enum cshim_gloo_index index, const void *caller)
{
    static __thread struct {
        const void *caller, *base;
        cshim_gloo_function real;
    } known[CSHIM_GLOO_FUNCTIONS] __attribute__((tls_model("initial-exec")));
    if (known[index].caller != caller || known[index].real == NULL) {
        known[index].real = (cshim_gloo_function)cshim_resolve_gloo(functions[index].name, caller);
        known[index].base = cshim_object_base((const void *)known[index].real);
        known[index].caller = caller;
    }
    struct call call = {.real = known[index].real};
    if (call.real == NULL) { /* gloo's functions cannot return an error */
        cshim_log(CSHIM_LOG_ERROR, "no library after libcompshim.so defines %s",
                  functions[index].name);
        abort();
    }
    if (!__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
        start_gloo_engine(caller);
    const struct cshim_gloo_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (active == NULL || known[index].base == engine_base)
        call.engine = active;
    else
        pass_second(active, index);
    return call;
}

#include "gloo_wrappers.h"
