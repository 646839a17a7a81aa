/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols of gloo: C++ functions. The wrappers are in gloo_wrappers.h, which
 * functions.awk writes from gloo.def; what they share is here.
 *
 * gloo throws. What it throws goes through these functions, which have nothing to undo. */
#include <pthread.h>
#include <stdlib.h>

#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/front/front.h"
#include "shim/gloo/engine.h"

struct function {
    const char *name; /* its C++ symbol */
};

static struct function functions[CSHIM_GLOO_FUNCTIONS];

static const struct cshim_gloo_engine *engine; /* NULL: every call is passed through; atomic */
static const void *engine_base;                /* where the gloo is loaded that it works for */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the start */
static int tried;                                              /* to start it; atomic */

/* A child of fork starts anew: gloo's threads and connections are its parent's. */
static void stop_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&tried, 0, __ATOMIC_RELAXED);
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void start_engine(const void *caller)
{
    static bool registered;
    bool is_beside;
    cshim_gloo_function allreduce =
        (cshim_gloo_function)cshim_resolve_gloo(functions[CSHIM_INDEX_gloo_allreduce].name, caller);
    pthread_mutex_lock(&start_lock);
    if (!tried && allreduce != NULL && !cshim_is_off()) {
        cshim_presence_tell();
        const struct cshim_gloo_engine *opened = cshim_engine_open_gloo(&is_beside);
        if (opened != NULL) {
            opened->start(allreduce, is_beside);
            if (!registered)
                pthread_atfork(NULL, NULL, stop_in_child);
            registered = true;
            engine_base = cshim_object_base((const void *)allreduce);
            __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&start_lock);
}

/* Where a call goes. */
struct call {
    cshim_gloo_function real;
    const struct cshim_gloo_engine *engine; /* NULL: the call is passed through */
};

/* The engine works for one gloo. The calls of a second one are passed through: a warning says so
 * once, and its all-reduces are counted. */
static void pass_second(const struct cshim_gloo_engine *active, enum cshim_gloo_index index)
{
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "a second gloo is in this process: its calls are passed through");
    if (index == CSHIM_INDEX_gloo_allreduce)
        active->count_unread(CSHIM_REASON_SECOND_LIBRARY);
}

/* Each object that calls gloo has its own. A thread remembers what it has found, because asking the
 * dynamic loader takes a lock. */
static struct call begin(enum cshim_gloo_index index, const void *caller)
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
    if (call.real == NULL) { /* there is no error to return */
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s",
                  functions[index].name);
        abort();
    }
    if (!__atomic_load_n(&tried, __ATOMIC_ACQUIRE))
        start_engine(caller);
    const struct cshim_gloo_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (active == NULL || known[index].base == engine_base)
        call.engine = active;
    else
        pass_second(active, index);
    return call;
}

#include "gloo_wrappers.h"
