/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols and nothing else. MPI_X and PMPI_X are one function each: Open MPI's Fortran
 * layers call PMPI_X, with MPI_IN_PLACE and MPI_BOTTOM already translated.
 *
 * Handles are forwarded as pointers without being looked at; a 32-bit handle travels in the same
 * register. */
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "shim/front/front.h"
#include "shim/front/narrow.h"
#include "shim/core/log.h"

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

static void explain_limit(const char *name)
{
    cshim_log(CSHIM_LOG_ERROR,
              "%s_c: this MPI has only %s, and a count or displacement is above its limit of %d",
              name, name, INT_MAX);
}

static int end_with_int(const char *name, int status, bool fits)
{
    if (status != 0 && !fits)
        explain_limit(name);
    return status;
}

/* MPI_X_c for a program that finds it here, but not in its MPI. It is called as the library's own
 * would be: with the depth of a wrapper or more. */
#define NARROW(count) cshim_narrow_count(count, &fits)
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

/* Why arrays cannot be handed on: an MPI error, which the caller's error handler knows of; or 0. */
static int judge_arrays(const char *name, const struct cshim_narrowed *sent,
                        const struct cshim_narrowed *received, cshim_comm_handle comm)
{
    if (sent->status != 0 || received->status != 0)
        return sent->status != 0 ? sent->status : received->status;
    if (!sent->refused && !received->refused)
        return 0;
    explain_limit(name);
    return cshim_narrow_refuse(comm);
}

/* The same of those whose counts are in arrays: what is sent and what is received as ints. */
#define MAKE_WITH_INTS(symbol, parameters, sends, receives, arguments)                             \
    static int symbol##_with_int parameters                                                        \
    {                                                                                              \
        struct cshim_narrowed sent = sends, received = receives;                                   \
        __typeof__(real.symbol) function = find(&symbol##_function, NULL, depth > 1);              \
        int status = judge_arrays(#symbol, &sent, &received, comm);                                \
        if (status == 0) {                                                                         \
            status = function != NULL ? function arguments : CSHIM_MPI_ERR_OTHER;                  \
            end_with_int(#symbol, status, sent.fits &&received.fits);                              \
        }                                                                                          \
        cshim_narrowed_free(&sent);                                                                \
        cshim_narrowed_free(&received);                                                            \
        return status;                                                                             \
    }
#define NOTHING ((struct cshim_narrowed){.fits = true})
#define SENT(entries) cshim_narrow_arrays(entries, sendcounts, sdispls, comm)
#define RECEIVED(entries) cshim_narrow_arrays(entries, recvcounts, rdispls, comm)
#define SENDV CSHIM_SENDV(cshim_count, cshim_displacement)
#define RECEIVEV CSHIM_RECEIVEV(cshim_count, cshim_displacement)
#define EXCHANGEW CSHIM_EXCHANGEW(cshim_count, cshim_displacement)
#define SENDV_A sendbuf, sent.counts, sent.displacements
#define RECEIVEV_A recvbuf, received.counts, received.displacements

MAKE_WITH_INTS(MPI_Reduce_scatter, (CSHIM_SCATTERED(cshim_count), CSHIM_COMM), NOTHING,
               cshim_narrow_arrays(CSHIM_OWN_GROUP, recvcounts, NULL, comm),
               (sendbuf, recvbuf, received.counts, datatype, op, comm))
MAKE_WITH_INTS(MPI_Gatherv, (CSHIM_SEND(cshim_count), RECEIVEV, int root, CSHIM_COMM),
               cshim_narrow_one(sendcount), RECEIVED(cshim_narrow_at_root(root, comm)),
               (sendbuf, sent.count, sendtype, RECEIVEV_A, recvtype, root, comm))
MAKE_WITH_INTS(MPI_Scatterv, (SENDV, CSHIM_RECEIVE(cshim_count), int root, CSHIM_COMM),
               SENT(cshim_narrow_at_root(root, comm)), cshim_narrow_one(recvcount),
               (SENDV_A, sendtype, recvbuf, received.count, recvtype, root, comm))
MAKE_WITH_INTS(MPI_Allgatherv, (CSHIM_SEND(cshim_count), RECEIVEV, CSHIM_COMM),
               cshim_narrow_one(sendcount), RECEIVED(CSHIM_PARTNERS),
               (sendbuf, sent.count, sendtype, RECEIVEV_A, recvtype, comm))
MAKE_WITH_INTS(MPI_Alltoallv, (SENDV, RECEIVEV, CSHIM_COMM), SENT(cshim_narrow_sent(sendbuf)),
               RECEIVED(CSHIM_PARTNERS), (SENDV_A, sendtype, RECEIVEV_A, recvtype, comm))
MAKE_WITH_INTS(MPI_Alltoallw, (EXCHANGEW, CSHIM_COMM), SENT(cshim_narrow_sent(sendbuf)),
               RECEIVED(CSHIM_PARTNERS), (SENDV_A, sendtypes, RECEIVEV_A, recvtypes, comm))
MAKE_WITH_INTS(MPI_Neighbor_allgatherv, (CSHIM_SEND(cshim_count), RECEIVEV, CSHIM_COMM),
               cshim_narrow_one(sendcount), RECEIVED(CSHIM_SOURCES),
               (sendbuf, sent.count, sendtype, RECEIVEV_A, recvtype, comm))
MAKE_WITH_INTS(MPI_Neighbor_alltoallv, (SENDV, RECEIVEV, CSHIM_COMM), SENT(CSHIM_DESTINATIONS),
               RECEIVED(CSHIM_SOURCES), (SENDV_A, sendtype, RECEIVEV_A, recvtype, comm))
/* Its displacements are of the size of an address in both. */
MAKE_WITH_INTS(MPI_Neighbor_alltoallw, (EXCHANGEW, CSHIM_COMM),
               cshim_narrow_arrays(CSHIM_DESTINATIONS, sendcounts, NULL, comm),
               cshim_narrow_arrays(CSHIM_SOURCES, recvcounts, NULL, comm),
               (sendbuf, sent.counts, sdispls, sendtypes, recvbuf, received.counts, rdispls,
                recvtypes, comm))

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
