/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols of MPI. The wrappers are in mpi_wrappers.h, which functions.awk writes from
 * mpi.def; what they share is here.
 *
 * MPI_X and PMPI_X are one function, because Open MPI's Fortran layers call PMPI_X, with
 * MPI_IN_PLACE and MPI_BOTTOM already translated. */
#include <pthread.h>
#include <stdbool.h>

#include "shim/core/environment.h"
#include "shim/front/front.h"
#include "shim/front/narrow.h"
#include "shim/front/nesting.h"
#include "shim/mpi/engine.h"
#include "shim/core/log.h"

#define NOT_FOUND CSHIM_MPI_ERR_OTHER

#define ALIAS(name) CSHIM_EXPORT extern __typeof__(name) P##name __attribute__((alias(#name)))

/* An exported function, and the real functions behind it. */
struct function {
    const char *name;
    const char *older;         /* what some libraries call it, with the same contract; or NULL */
    struct function *with_int; /* of MPI_X_c: MPI_X */
    void *made_of_it;          /* of MPI_X_c: stands for it where the library has only MPI_X */
    void *next;                /* the next definition, which may be another tool's wrapper */
    void *bottom;              /* the MPI library's own definition */
};

static struct function functions[CSHIM_MPI_FUNCTIONS];

/* What the engine is given: the next definitions. Written before `engine` is published. */
static union {
    struct cshim_mpi_real functions;
    void *by_index[CSHIM_MPI_FUNCTIONS];
} real;
_Static_assert(sizeof real.functions == sizeof real.by_index, "one pointer for each function");

static const struct cshim_mpi_engine *engine; /* NULL: every call is passed on */

static __thread struct cshim_nesting nesting __attribute__((tls_model("initial-exec")));

static void *find(struct function *function, const void *caller, bool bottom);

/* Whether the library that has MPI_X has MPI_X_c too. A second MPI in the process may have the only
 * MPI_X_c. */
static bool is_in_library_of_int(const struct function *function, const void *caller)
{
    return cshim_same_object(cshim_resolve(function->name, caller, true),
                             cshim_resolve(function->with_int->name, caller, true));
}

static void *look_up(const struct function *function, const void *caller, bool bottom)
{
    if (function->with_int != NULL && !is_in_library_of_int(function, caller))
        return find(function->with_int, caller, bottom) != NULL ? function->made_of_it : NULL;
    void *address = cshim_resolve(function->name, caller, bottom);
    if (address == NULL && function->older != NULL)
        address = cshim_resolve(function->older, caller, bottom);
    return address;
}

/* Looks a function up until it is found, and then keeps it. Two threads may do so at once; they
 * find the same. */
static void *find(struct function *function, const void *caller, bool bottom)
{
    void **slot = bottom ? &function->bottom : &function->next;
    void *address = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (__builtin_expect(address != NULL, 1))
        return address;
    address = look_up(function, caller, bottom);
    if (address != NULL)
        __atomic_store_n(slot, address, __ATOMIC_RELEASE);
    return address;
}

static __attribute__((noinline)) void *real_function(struct function *function, const void *caller)
{
    void *address = find(function, caller, nesting.depth > 1);
    if (__builtin_expect(address == NULL, 0))
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", function->name);
    return address;
}

/* Where a call goes. */
struct call {
    struct cshim_frame frame;
    const struct cshim_mpi_engine *engine; /* NULL: the call is only passed on */
    void *real;                            /* NULL: there is no such function */
};

static inline void begin(struct call *call, enum cshim_mpi_index index, const void *caller)
{
    cshim_enter(&nesting, &call->frame, caller);
    call->real = real.by_index[index];
    call->engine = nesting.depth == 1 && call->real != NULL
                       ? __atomic_load_n(&engine, __ATOMIC_ACQUIRE)
                       : NULL;
    if (call->engine == NULL)
        call->real = real_function(&functions[index], caller);
}

static void stop_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
}

/* Opens the engine for the MPI whose MPI_Init or MPI_Init_thread, `init`, has just succeeded. */
static void start_engine(const void *init, const void *caller)
{
    struct cshim_frame frame;
    if (nesting.depth > 0 || cshim_is_off())
        return;
    cshim_presence_tell();
    const struct cshim_mpi_engine *opened = cshim_engine_open_mpi(init);
    if (opened == NULL)
        return;
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS; i++)
        real.by_index[i] = find(&functions[i], caller, false);
    cshim_enter(&nesting, &frame, caller);
    const int active = opened->start(&real.functions);
    cshim_leave(&nesting, &frame);
    if (active) {
        pthread_atfork(NULL, NULL, stop_in_child);
        __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
    }
}

static void stop_engine(void)
{
    const struct cshim_mpi_engine *active = __atomic_exchange_n(&engine, NULL, __ATOMIC_ACQ_REL);
    if (active != NULL)
        active->finalize();
}

#include "mpi_wrappers.h"
