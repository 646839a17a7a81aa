/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols and nothing else. MPI_X and PMPI_X are one function each: Open MPI's Fortran
 * layers call PMPI_X, with MPI_IN_PLACE and MPI_BOTTOM already translated.
 *
 * Handles are forwarded as pointers without being looked at; a 32-bit handle travels in the same
 * register. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/front/front.h"
#include "shim/log.h"

/* The real functions behind a wrapper: `next` is what a call goes on to, another tool's wrapper if
 * one is stacked behind this library; `bottom` is the MPI library's own, for calls that such a tool
 * or the library makes while a call of ours is under way. */
struct function {
    const char *name;
    void *next;
    void *bottom;
};

static struct function init_function = {.name = "MPI_Init"};
static struct function init_thread_function = {.name = "MPI_Init_thread"};
static struct function finalize_function = {.name = "MPI_Finalize"};
static struct function allreduce_function = {.name = "MPI_Allreduce"};

static struct cshim_mpi_real real;            /* set before `engine` is published */
static const struct cshim_mpi_engine *engine; /* NULL: pass everything on */

/* Not 0 while this thread is inside the shim: what the library or another tool calls from there
 * goes straight to the library. */
static __thread int depth __attribute__((tls_model("initial-exec")));

#define ALIAS(name)                                                                                \
    CSHIM_EXPORT extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)))

/* Looks a function up until it is found, then keeps it; a race writes the same value twice. */
static void *real_function(struct function *function, const void *caller)
{
    void **slot = depth > 0 ? &function->bottom : &function->next;
    void *address = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (__builtin_expect(address != NULL, 1))
        return address;
    address = cshim_resolve(function->name, caller, depth > 0);
    if (address == NULL)
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", function->name);
    else
        __atomic_store_n(slot, address, __ATOMIC_RELEASE);
    return address;
}

static int is_off(void)
{
    const char *value = getenv("COMPSHIM");
    return value != NULL && (strcmp(value, "off") == 0 || strcmp(value, "0") == 0);
}

static void stop_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
}

/* After the real MPI_Init has succeeded. */
static void start_engine(const void *init, const void *caller)
{
    if (is_off())
        return;
    void *allreduce = real_function(&allreduce_function, caller);
    const struct cshim_mpi_engine *opened = allreduce ? cshim_engine_open(init) : NULL;
    if (opened == NULL)
        return;
    real.allreduce = allreduce;
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
CSHIM_EXPORT int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, void *datatype,
                               void *op, void *comm);

int MPI_Init(int *argc, char ***argv)
{
    const void *caller = __builtin_return_address(0);
    int (*init)(int *, char ***) = real_function(&init_function, caller);
    if (init == NULL)
        return CSHIM_MPI_ERR_OTHER;
    depth++;
    const int status = init(argc, argv);
    depth--;
    if (status == 0 && depth == 0)
        start_engine((const void *)init, caller);
    return status;
}
ALIAS(Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const void *caller = __builtin_return_address(0);
    int (*init)(int *, char ***, int, int *) = real_function(&init_thread_function, caller);
    if (init == NULL)
        return CSHIM_MPI_ERR_OTHER;
    depth++;
    const int status = init(argc, argv, required, provided);
    depth--;
    if (status == 0 && depth == 0)
        start_engine((const void *)init, caller);
    return status;
}
ALIAS(Init_thread);

int MPI_Finalize(void)
{
    int (*finalize)(void) = real_function(&finalize_function, __builtin_return_address(0));
    const struct cshim_mpi_engine *active = __atomic_exchange_n(&engine, NULL, __ATOMIC_ACQ_REL);
    depth++;
    if (active != NULL)
        active->finalize();
    const int status = finalize != NULL ? finalize() : CSHIM_MPI_ERR_OTHER;
    depth--;
    return status;
}
ALIAS(Finalize);

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, void *datatype, void *op,
                  void *comm)
{
    const struct cshim_mpi_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    int (*allreduce)(const void *, void *, int, void *, void *, void *) =
        real_function(&allreduce_function, __builtin_return_address(0));
    if (active != NULL && depth == 0)
        allreduce = active->allreduce;
    if (allreduce == NULL)
        return CSHIM_MPI_ERR_OTHER;
    depth++;
    const int status = allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    depth--;
    return status;
}
ALIAS(Allreduce);
