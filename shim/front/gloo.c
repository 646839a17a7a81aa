/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols of gloo: C++ functions, each of which takes its options by reference.
 *
 * gloo throws. What it throws goes through these functions, which have nothing to undo. */
#include <pthread.h>
#include <stdlib.h>

#include "shim/core/environment.h"
#include "shim/core/log.h"
#include "shim/front/front.h"
#include "shim/gloo/engine.h"

/* The functions, by their C++ symbols. */
enum index { ALLREDUCE, REDUCE, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, BROADCAST, FUNCTIONS };
#define SYMBOL_ALLREDUCE "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE"
#define SYMBOL_REDUCE "_ZN4gloo6reduceERNS_13ReduceOptionsE"
#define SYMBOL_ALLGATHER "_ZN4gloo9allgatherERNS_16AllgatherOptionsE"
#define SYMBOL_ALLGATHERV "_ZN4gloo10allgathervERNS_17AllgathervOptionsE"
#define SYMBOL_ALLTOALL "_ZN4gloo8alltoallERNS_15AlltoallOptionsE"
#define SYMBOL_ALLTOALLV "_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE"
#define SYMBOL_BROADCAST "_ZN4gloo9broadcastERNS_16BroadcastOptionsE"

static const char *const symbols[FUNCTIONS] = {
    [ALLREDUCE] = SYMBOL_ALLREDUCE,   [REDUCE] = SYMBOL_REDUCE,     [ALLGATHER] = SYMBOL_ALLGATHER,
    [ALLGATHERV] = SYMBOL_ALLGATHERV, [ALLTOALL] = SYMBOL_ALLTOALL, [ALLTOALLV] = SYMBOL_ALLTOALLV,
    [BROADCAST] = SYMBOL_BROADCAST,
};
static const unsigned counted[FUNCTIONS] = {
    [REDUCE] = CSHIM_COUNTED_GLOO_REDUCE,         [ALLGATHER] = CSHIM_COUNTED_GLOO_ALLGATHER,
    [ALLGATHERV] = CSHIM_COUNTED_GLOO_ALLGATHERV, [ALLTOALL] = CSHIM_COUNTED_GLOO_ALLTOALL,
    [ALLTOALLV] = CSHIM_COUNTED_GLOO_ALLTOALLV,   [BROADCAST] = CSHIM_COUNTED_GLOO_BROADCAST,
};

static const struct cshim_gloo_engine *engine; /* NULL: every call is passed on; atomic */
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
        (cshim_gloo_function)cshim_resolve_gloo(SYMBOL_ALLREDUCE, caller);
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
    const struct cshim_gloo_engine *engine; /* NULL: the call is passed on */
};

/* The engine works for one gloo. The calls of a second one are passed on: a warning says so once,
 * and its all-reduces are counted. */
static void pass_second(const struct cshim_gloo_engine *active, enum index index)
{
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        cshim_log(CSHIM_LOG_WARN, "a second gloo is in this process: its calls are passed on");
    if (index == ALLREDUCE)
        active->count_unread(CSHIM_REASON_SECOND_LIBRARY);
}

/* Each object that calls gloo has its own. A thread remembers what it has found, because asking the
 * dynamic loader takes a lock. */
static struct call begin(enum index index, const void *caller)
{
    static __thread struct {
        const void *caller, *base;
        cshim_gloo_function real;
    } known[FUNCTIONS] __attribute__((tls_model("initial-exec")));
    if (known[index].caller != caller || known[index].real == NULL) {
        known[index].real = (cshim_gloo_function)cshim_resolve_gloo(symbols[index], caller);
        known[index].base = cshim_object_base((const void *)known[index].real);
        known[index].caller = caller;
    }
    struct call call = {.real = known[index].real};
    if (call.real == NULL) { /* there is no error to return */
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", symbols[index]);
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

static inline void count_and_pass(enum index index, const void *options, const void *caller)
{
    const struct call call = begin(index, caller);
    if (call.engine != NULL)
        call.engine->count(counted[index], options);
    call.real(options);
}

#define CALLER __builtin_return_address(0)

CSHIM_EXPORT void cshim_gloo_allreduce(const void *options) __asm__(SYMBOL_ALLREDUCE);
CSHIM_EXPORT void cshim_gloo_reduce(void *options) __asm__(SYMBOL_REDUCE);
CSHIM_EXPORT void cshim_gloo_allgather(void *options) __asm__(SYMBOL_ALLGATHER);
CSHIM_EXPORT void cshim_gloo_allgatherv(void *options) __asm__(SYMBOL_ALLGATHERV);
CSHIM_EXPORT void cshim_gloo_alltoall(void *options) __asm__(SYMBOL_ALLTOALL);
CSHIM_EXPORT void cshim_gloo_alltoallv(void *options) __asm__(SYMBOL_ALLTOALLV);
CSHIM_EXPORT void cshim_gloo_broadcast(void *options) __asm__(SYMBOL_BROADCAST);

void cshim_gloo_allreduce(const void *options)
{
    const struct call call = begin(ALLREDUCE, CALLER);
    (call.engine != NULL ? call.engine->allreduce : call.real)(options);
}

void cshim_gloo_reduce(void *options)
{
    count_and_pass(REDUCE, options, CALLER);
}

void cshim_gloo_allgather(void *options)
{
    count_and_pass(ALLGATHER, options, CALLER);
}

void cshim_gloo_allgatherv(void *options)
{
    count_and_pass(ALLGATHERV, options, CALLER);
}

void cshim_gloo_alltoall(void *options)
{
    count_and_pass(ALLTOALL, options, CALLER);
}

void cshim_gloo_alltoallv(void *options)
{
    count_and_pass(ALLTOALLV, options, CALLER);
}

void cshim_gloo_broadcast(void *options)
{
    count_and_pass(BROADCAST, options, CALLER);
}
