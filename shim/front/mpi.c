/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols of MPI. The wrappers are in mpi_wrappers.h, which functions.awk writes from
 * mpi.def; what they share is here.
 *
 * A PMPI tool (a profiler, a tracer) may lie between this library and the MPI library: it defines
 * MPI_X, and calls PMPI_X. The MPI standard lets it see each MPI_X of the program once, and no
 * PMPI_X. So MPI_X calls the tool first, if there is one, and the PMPI_X that the tool makes of it
 * is compressed. Any other PMPI_X of a tool goes to the MPI library untouched, and so do all
 * messages of the engine: the tool sees none of them.
 *
 * Without a tool MPI_X and PMPI_X do the same. Open MPI's Fortran layers call PMPI_X, with
 * MPI_IN_PLACE and MPI_BOTTOM already translated. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "shim/core/environment.h"
#include "shim/front/front.h"
#include "shim/front/narrow.h"
#include "shim/front/nesting.h"
#include "shim/mpi/engine.h"
#include "shim/core/log.h"

#define NOT_FOUND CSHIM_MPI_ERR_OTHER
#define APART __attribute__((noinline))

/* An exported function, and the real functions behind it. */
struct function {
    const char *name;
    const char *older;         /* what some libraries call it, with the same contract; or NULL */
    struct function *with_int; /* of MPI_X_c: MPI_X */
    void *made_of_it;          /* of MPI_X_c: stands for it where the library has only MPI_X */
    bool is_engines;           /* the engine has a function of its own for it */
    bool has_tool;             /* `next` is a tool's */
    void *next;                /* the next definition, which may be a tool's */
    void *bottom;              /* the MPI library's own definition */
    const void *own_from;      /* where a tool has called PMPI_X for itself; atomic */
    const void *handed_from;   /* where PMPI_X was called for the program; atomic */
};

static struct function functions[CSHIM_MPI_FUNCTIONS];

/* Targets of calls. All of this is written before `engine` is published. */
static const struct cshim_mpi_engine *engine; /* NULL: every call is passed through */
static struct cshim_mpi_wrapped by_program; /* the engine's functions, or tools' in front of them */
static void *next[CSHIM_MPI_FUNCTIONS];     /* the next definitions, which may be tools' */
static union {
    struct cshim_mpi_real functions;
    void *by_index[CSHIM_MPI_FUNCTIONS];
} bottom; /* the MPI library's own, which the engine is given */
_Static_assert(sizeof bottom.functions == sizeof bottom.by_index, "one pointer for each function");

/* The tools of the process: those between this library and the MPI library, those that are
 * preloaded before this library, and the program, if it defines functions of MPI. */
#define TOOLS_MAX 16
static struct {
    const void *address; /* in the tool */
    /* It calls PMPI_X for the program only within MPI_X of this library. Other tools make it of
     * calls that do not come by this library: those behind it that define Fortran's functions, too,
     * of a Fortran program's. */
    bool is_called_here;
} tools[TOOLS_MAX];
static unsigned tool_count;

static __thread struct cshim_nesting nesting __attribute__((tls_model("initial-exec")));

/* A call of the program that a tool has been given: what is equal on all ranks, as numbers, and the
 * buffers. */
#define HANDED_NUMBERS 8
struct cshim_handed {
    enum cshim_mpi_index index;
    bool taken; /* the tool has handed it on */
    const void *input, *output;
    uint64_t numbers[HANDED_NUMBERS];
};
#define NUMBER(argument) ((uint64_t)(uintptr_t)(argument))
/* MPICH's handles are numbers of 32 bits, and the rest of their register may be anything. */
#define HANDLE(argument) ((uint64_t)(uint32_t)(uintptr_t)(argument))

static void *find(struct function *function, const void *caller, bool at_bottom);

/* Whether the library that has MPI_X has MPI_X_c too. A second MPI in the process may have the only
 * MPI_X_c. */
static bool is_in_library_of_int(const struct function *function, const void *caller)
{
    return cshim_same_object(cshim_resolve(function->name, caller, true),
                             cshim_resolve(function->with_int->name, caller, true));
}

static void *look_up(const struct function *function, const void *caller, bool at_bottom)
{
    if (function->with_int != NULL && !is_in_library_of_int(function, caller))
        return find(function->with_int, caller, true) != NULL ? function->made_of_it : NULL;
    void *address = cshim_resolve(function->name, caller, at_bottom);
    if (address == NULL && function->older != NULL)
        address = cshim_resolve(function->older, caller, at_bottom);
    return address;
}

/* Looks a function up until it is found, and then keeps it. Two threads may do so at once; they
 * find the same. */
static void *find(struct function *function, const void *caller, bool at_bottom)
{
    void **slot = at_bottom ? &function->bottom : &function->next;
    void *address = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (__builtin_expect(address != NULL, 1))
        return address;
    address = look_up(function, caller, at_bottom);
    if (address != NULL)
        __atomic_store_n(slot, address, __ATOMIC_RELEASE);
    return address;
}

static APART void *real_function(struct function *function, const void *caller, bool at_bottom)
{
    void *address = find(function, caller, at_bottom);
    if (__builtin_expect(address == NULL, 0))
        cshim_log(CSHIM_LOG_ERROR, "no library behind the preload defines %s", function->name);
    return address;
}

/* Where a call goes. */
struct call {
    struct cshim_frame frame;
    const struct cshim_mpi_engine *engine; /* NULL: the call is only passed through */
    void *real;                            /* NULL: there is no such function */
};

/* The engine that the call concerns: only the program's own calls do, or calls `at_any_depth`. */
static inline void find_engine(struct call *call, bool at_any_depth)
{
    call->engine = (at_any_depth || nesting.depth == 1) && call->real != NULL
                       ? __atomic_load_n(&engine, __ATOMIC_ACQUIRE)
                       : NULL;
}

/* Begins a call of MPI_X. */
static inline void begin(struct call *call, enum cshim_mpi_index index, const void *caller,
                         bool at_any_depth)
{
    cshim_enter(&nesting, &call->frame, caller);
    call->real = next[index];
    find_engine(call, at_any_depth);
    if (call->engine == NULL)
        call->real = real_function(&functions[index], caller, false);
}

/* Returns true if a PMPI_X that is no part of a call of MPI_X is a tool's own, and not the
 * program's, by where it comes from. */
static bool is_own_call(struct function *function, const void *caller)
{
    enum cshim_wrapper wrapper = CSHIM_WRAPPER_NONE;
    unsigned i = 0;
    if (__atomic_load_n(&function->handed_from, __ATOMIC_RELAXED) == caller)
        return false;
    if (__atomic_load_n(&function->own_from, __ATOMIC_RELAXED) == caller)
        return true;
    while (i < tool_count && !cshim_same_object(tools[i].address, caller))
        i++;
    const bool is_tools = i < tool_count;
    if (is_tools && tools[i].is_called_here)
        wrapper = CSHIM_WRAPPER_OTHER;
    else if (is_tools)
        wrapper = cshim_wrapper_at(caller, function->name);
    if (is_tools && wrapper == CSHIM_WRAPPER_NONE) /* a function that several wrappers may call */
        return cshim_wrapper_above(caller, function->name) == CSHIM_WRAPPER_OTHER;
    const bool is_own = wrapper == CSHIM_WRAPPER_OTHER;
    __atomic_store_n(is_own ? &function->own_from : &function->handed_from, caller,
                     __ATOMIC_RELAXED);
    return is_own;
}

/* A tool's own call does not concern the engine. */
static APART void leave_out_own(struct call *call, struct function *function, const void *caller)
{
    if (call->engine != NULL && is_own_call(function, caller))
        call->engine = NULL;
}

/* Begins a call of PMPI_X. */
static inline void begin_profiled(struct call *call, enum cshim_mpi_index index, const void *caller,
                                  bool at_any_depth)
{
    cshim_enter(&nesting, &call->frame, caller);
    call->real = bottom.by_index[index];
    find_engine(call, at_any_depth);
    if (__builtin_expect(tool_count > 0, 0) && !at_any_depth)
        leave_out_own(call, &functions[index], caller);
    if (call->engine == NULL)
        call->real = real_function(&functions[index], caller, true);
}

/* Returns true if a buffer can tell calls apart: NULL and MPI_IN_PLACE, which is 1 or -1, do not.
 */
static bool is_telling(const void *buffer)
{
    return (uintptr_t)buffer + 1 > 2;
}

/* Returns true if a PMPI_X of a tool is the program's call, handed on: one of the buffers is
 * enough, because a tool may put one of its own in place of the other on some ranks only. */
static bool is_same(const struct cshim_handed *handed, const struct cshim_handed *made)
{
    const bool same_input = handed->input == made->input,
               same_output = handed->output == made->output;
    return handed->index == made->index &&
           memcmp(handed->numbers, made->numbers, sizeof made->numbers) == 0 &&
           ((same_input && (same_output || is_telling(made->input))) ||
            (same_output && is_telling(made->output)));
}

/* Has the engine make a PMPI_X if it is the program's call, which a tool hands on for the first
 * time. */
static APART void recognise(struct call *call, const struct cshim_handed *made)
{
    struct cshim_handed *handed = call->frame.outside.depth > 0 ? call->frame.outside.handed : NULL;
    const struct cshim_mpi_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (handed == NULL || handed->taken || active == NULL || !is_same(handed, made))
        return;
    handed->taken = true;
    call->engine = active;
}

/* Notes a call that is counted, and that a tool may be given. */
static inline void give_counted(struct cshim_handed *given, enum cshim_mpi_index index)
{
    if (__builtin_expect(tool_count > 0, 0)) {
        given->index = index;
        given->taken = true;
        nesting.handed = given;
    }
}

/* A PMPI_X that a tool makes of a counted call is not counted again. It may seem to come from the
 * program: a compiler makes a jump of the last call of a function. */
static APART void leave_out_counted(struct call *call, enum cshim_mpi_index index)
{
    const struct cshim_nesting *outside = &call->frame.outside;
    if (outside->depth > 0 && outside->handed != NULL && outside->handed->index == index)
        call->engine = NULL;
}

/* Ends a call that a tool has been given. A tool may have made another call of it, or none: that
 * the engine has not seen. */
static int end_handed(const struct cshim_handed *handed, int status, MPI_Comm comm)
{
    const struct cshim_mpi_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (!handed->taken && status == 0 && active != NULL)
        active->count_tool(comm);
    return status;
}

static void put_tools_first(void);

/* Returns true if a tool defines a function. One that has the older name in this library is not
 * looked for: no program is linked to it. */
static bool is_tool(const struct function *function, const void *caller)
{
    if (function->older != NULL && cshim_resolve(function->name, caller, true) == NULL)
        return false;
    return cshim_is_tool(function->next, function->bottom, function->name);
}

/* Adds a tool to the list, once. */
static void note_tool(const void *address, bool is_behind)
{
    bool has_fortran = false;
    for (unsigned i = 0; i < tool_count; i++)
        if (cshim_same_object(tools[i].address, address))
            return;
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS && is_behind && !has_fortran; i++)
        has_fortran = cshim_defines_fortran(address, functions[i].name);
    if (tool_count < TOOLS_MAX) {
        tools[tool_count].address = address;
        tools[tool_count++].is_called_here = is_behind && !has_fortran;
    }
}

/* Returns true if a tool hands the engine's calls past this library: it has fetched the MPI
 * library's functions with dlsym, since it refers to none of them. */
static bool hands_past(const void *tool)
{
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS; i++)
        if (functions[i].is_engines && cshim_refers_to_profiled(tool, functions[i].name))
            return false;
    return true;
}

/* Fills the tables. Returns a tool that hands calls past this library, or NULL. */
static const void *find_all(const void *caller)
{
    const void *past = NULL;
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS; i++) {
        struct function *function = &functions[i];
        const void *preceding = cshim_preceding(function->name);
        if (preceding != NULL)
            note_tool(preceding, false);
        bottom.by_index[i] = find(function, caller, true);
        if (bottom.by_index[i] == NULL)
            continue;
        next[i] = find(function, caller, false);
        function->has_tool = is_tool(function, caller);
        if (!function->has_tool)
            continue;
        note_tool(next[i], true);
        if (function->is_engines && past == NULL && hands_past(next[i]))
            past = next[i];
    }
    return past;
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
    const void *past = find_all(caller);
    cshim_enter(&nesting, &frame, caller);
    const int active = opened->start(&bottom.functions, cshim_object_file(past));
    cshim_leave(&nesting, &frame);
    if (active) {
        by_program = opened->functions;
        put_tools_first();
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
