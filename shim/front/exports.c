/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols and nothing else. MPI_X and PMPI_X are one function each: Open MPI's Fortran
 * layers call PMPI_X, with MPI_IN_PLACE and MPI_BOTTOM already translated.
 *
 * Handles are forwarded as pointers without being looked at; a 32-bit handle travels in the same
 * register. */
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/front/front.h"
#include "shim/log.h"

/* The real functions behind a wrapper: `next` is what a call goes on to, another tool's wrapper if
 * one is stacked behind this library; `bottom` is the MPI library's own, for calls that such a tool
 * or the library makes while a call of ours is under way. */
struct function {
    const char *name;
    struct function *with_int; /* of MPI_X_c: MPI_X, ... */
    void *made_of_it;          /* ... and what is called where the library has only that */
    void *next;
    void *bottom;
};

#define FUNCTION(symbol, c, parameters, ...) FUNCTION_BY_NAME##c(symbol, parameters)
#define FUNCTION_BY_NAME(symbol, parameters)                                                       \
    static struct function symbol##_function = {.name = #symbol};
#define FUNCTION_BY_NAME_c(symbol, parameters)                                                     \
    static int symbol##_with_int parameters;                                                       \
    static struct function symbol##_c_function = {                                                 \
        .name = #symbol "_c", .with_int = &symbol##_function, .made_of_it = symbol##_with_int};
FUNCTION_BY_NAME(MPI_Init, )
FUNCTION_BY_NAME(MPI_Init_thread, )
FUNCTION_BY_NAME(MPI_Finalize, )
CSHIM_MPI_WRAPPED(FUNCTION)
CSHIM_MPI_COUNTED(FUNCTION)

static struct cshim_mpi_real real;            /* set before `engine` is published */
static const struct cshim_mpi_engine *engine; /* NULL: pass everything on */

/* Not 0 while this thread is inside the shim: what the library or another tool calls from there
 * goes straight to the library. */
static __thread int depth __attribute__((tls_model("initial-exec")));

#define ALIAS(name) CSHIM_EXPORT extern __typeof__(name) P##name __attribute__((alias(#name)))

/* What some libraries have under an older name, with the same contract. */
static void *resolve_older(const char *name, const void *caller, int bottom)
{
    static const char *const names[][2] = {{"MPI_Allreduce_init", "MPIX_Allreduce_init"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            return cshim_resolve(names[i][1], caller, bottom);
    return NULL;
}

static void *find(struct function *function, const void *caller, int bottom);

/* Whether MPI_X_c belongs to the library that MPI_X is called in: a second MPI may be in the
 * process. */
static bool is_large_in_library(const struct function *function, const void *caller)
{
    return cshim_same_object(cshim_resolve(function->name, caller, 1),
                             cshim_resolve(function->with_int->name, caller, 1));
}

static void *look_up(const struct function *function, const void *caller, int bottom)
{
    if (function->with_int != NULL && !is_large_in_library(function, caller))
        return find(function->with_int, caller, bottom) != NULL ? function->made_of_it : NULL;
    void *address = cshim_resolve(function->name, caller, bottom);
    return address != NULL ? address : resolve_older(function->name, caller, bottom);
}

/* Looks a function up until it is found, then keeps it; a race writes the same value twice. */
static void *find(struct function *function, const void *caller, int bottom)
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
    void *address = find(function, caller, depth > 0);
    if (__builtin_expect(address == NULL, 0))
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", function->name);
    return address;
}

/* The engine, for a call of the program's own. */
static const struct cshim_mpi_engine *active_engine(void)
{
    return depth == 0 ? __atomic_load_n(&engine, __ATOMIC_ACQUIRE) : NULL;
}

static void stop_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
}

/* After the real MPI_Init has succeeded. */
static void start_engine(const void *init, const void *caller)
{
    if (cshim_is_off())
        return;
    cshim_presence_tell();
    const struct cshim_mpi_engine *opened = cshim_engine_open(init);
    if (opened == NULL)
        return;
#define FIND(symbol, c, ...) real.symbol##c = find(&symbol##c##_function, caller, 0);
    CSHIM_MPI_WRAPPED(FIND)
    CSHIM_MPI_COUNTED(FIND)
    depth++;
    const int active = opened->start(&real);
    depth--;
    if (active) {
        pthread_atfork(NULL, NULL, stop_in_child);
        __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
    }
}

CSHIM_EXPORT int MPI_Init(int *argc, char ***argv);
CSHIM_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
CSHIM_EXPORT int MPI_Finalize(void);

int MPI_Init(int *argc, char ***argv)
{
    const void *caller = __builtin_return_address(0);
    int (*init)(int *, char ***) = real_function(&MPI_Init_function, caller);
    if (init == NULL)
        return CSHIM_MPI_ERR_OTHER;
    depth++;
    const int status = init(argc, argv);
    depth--;
    if (status == 0 && depth == 0)
        start_engine((const void *)init, caller);
    return status;
}
ALIAS(MPI_Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const void *caller = __builtin_return_address(0);
    int (*init)(int *, char ***, int, int *) = real_function(&MPI_Init_thread_function, caller);
    if (init == NULL)
        return CSHIM_MPI_ERR_OTHER;
    depth++;
    const int status = init(argc, argv, required, provided);
    depth--;
    if (status == 0 && depth == 0)
        start_engine((const void *)init, caller);
    return status;
}
ALIAS(MPI_Init_thread);

int MPI_Finalize(void)
{
    int (*finalize)(void) = real_function(&MPI_Finalize_function, __builtin_return_address(0));
    const struct cshim_mpi_engine *active = __atomic_exchange_n(&engine, NULL, __ATOMIC_ACQ_REL);
    depth++;
    if (active != NULL)
        active->finalize();
    const int status = finalize != NULL ? finalize() : CSHIM_MPI_ERR_OTHER;
    depth--;
    return status;
}
ALIAS(MPI_Finalize);

/* The int that stands for a count. One that is too large becomes -1: the library refuses that by
 * the caller's error handler, unless it is one that it does not look at. */
static int narrow(cshim_count count, bool *fits)
{
    if (count >= INT_MIN && count <= INT_MAX)
        return (int)count;
    *fits = false;
    return -1;
}

static int end_with_int(const char *name, int status, bool fits)
{
    if (status != 0 && !fits)
        cshim_log(CSHIM_LOG_ERROR,
                  "%s_c: this MPI has only %s, and a count is above its limit of %d", name, name,
                  INT_MAX);
    return status;
}

/* MPI_X_c for a program that finds it here, but not in its MPI. It is called as the library's own
 * would be: with the depth of a wrapper or more. */
#define NARROW(count) narrow(count, &fits)
#define MAKE_WITH_INT(symbol, c, parameters, arguments, ...)                                       \
    static int symbol##_with_int parameters                                                        \
    {                                                                                              \
        bool fits = true;                                                                          \
        __typeof__(real.symbol) function = find(&symbol##_function, NULL, depth > 1);              \
        if (function == NULL)                                                                      \
            return CSHIM_MPI_ERR_OTHER;                                                            \
        const int status = function arguments;                                                     \
        return end_with_int(#symbol, status, fits);                                                \
    }
CSHIM_MPI_REDUCTIONS_OF(MAKE_WITH_INT, _c, cshim_count, NARROW)
CSHIM_MPI_COUNTED_OF(MAKE_WITH_INT, _c, cshim_count, NARROW)

static int MPI_Reduce_scatter_with_int(CSHIM_SCATTERED(cshim_count), CSHIM_COMM)
{
    bool fits = true;
    int ranks = 0, *narrowed = NULL;
    int (*comm_size)(cshim_comm_handle, int *) = cshim_resolve("MPI_Comm_size", NULL, 1);
    __typeof__(real.MPI_Reduce_scatter) function =
        find(&MPI_Reduce_scatter_function, NULL, depth > 1);
    if (comm_size == NULL || function == NULL)
        return CSHIM_MPI_ERR_OTHER;
    int status = comm_size(comm, &ranks);
    if (status != 0)
        return status;
    if (recvcounts != NULL) {
        narrowed = malloc((size_t)ranks * sizeof *narrowed);
        if (narrowed == NULL)
            return CSHIM_MPI_ERR_OTHER;
        for (int i = 0; i < ranks; i++)
            narrowed[i] = narrow(recvcounts[i], &fits);
    }
    status = function(sendbuf, recvbuf, narrowed, datatype, op, comm);
    free(narrowed);
    return end_with_int("MPI_Reduce_scatter", status, fits);
}

/* The engine's own function where it has one to offer, else the real one. */
#define WRAP(symbol, c, parameters, arguments)                                                     \
    CSHIM_EXPORT int symbol##c parameters;                                                         \
    int symbol##c parameters                                                                       \
    {                                                                                              \
        const struct cshim_mpi_engine *active = active_engine();                                   \
        int(*function) parameters = real.symbol##c;                                                \
        if (__builtin_expect(active != NULL && function != NULL, 1))                               \
            function = active->functions.symbol##c;                                                \
        else                                                                                       \
            function = real_function(&symbol##c##_function, __builtin_return_address(0));          \
        if (function == NULL)                                                                      \
            return CSHIM_MPI_ERR_OTHER;                                                            \
        depth++;                                                                                   \
        const int status = function arguments;                                                     \
        depth--;                                                                                   \
        return status;                                                                             \
    }                                                                                              \
    ALIAS(symbol##c);
CSHIM_MPI_WRAPPED(WRAP)

#define WRAP_COUNTED(symbol, c, parameters, arguments, block, elements, type)                      \
    CSHIM_EXPORT int symbol##c parameters;                                                         \
    int symbol##c parameters                                                                       \
    {                                                                                              \
        const struct cshim_mpi_engine *active = active_engine();                                   \
        int(*function) parameters =                                                                \
            real_function(&symbol##c##_function, __builtin_return_address(0));                     \
        if (function == NULL)                                                                      \
            return CSHIM_MPI_ERR_OTHER;                                                            \
        depth++;                                                                                   \
        if (active != NULL)                                                                        \
            active->count(CSHIM_COUNTED_##symbol, block, elements, type, comm);                    \
        const int status = function arguments;                                                     \
        depth--;                                                                                   \
        return status;                                                                             \
    }                                                                                              \
    ALIAS(symbol##c);
CSHIM_MPI_COUNTED(WRAP_COUNTED)
