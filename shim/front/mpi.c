/* SPDX-License-Identifier: Apache-2.0 */
/* Exported symbols of MPI. functions.awk writes the wrappers from mpi.def to mpi_wrappers.h; this
 * file has their common code.
 *
 * A PMPI tool (profiler, tracer) may lie between this library and the MPI library: it defines MPI_X
 * and calls PMPI_X. By the MPI standard it sees each MPI_X of the program once, and no PMPI_X. So
 * MPI_X calls the tool first, if there is one, and the engine gets the tool's PMPI_X for that call.
 * Other PMPI_X calls of such a tool are passed through, except those of its Fortran functions for
 * the program, and those that take requests, which may be the engine's. Messages of the engine go
 * to the MPI library directly, so that tools do not see them.
 *
 * Without a tool MPI_X and PMPI_X behave equally. Open MPI's Fortran layers call PMPI_X, with
 * MPI_IN_PLACE and MPI_BOTTOM already translated. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "shim/core/environment.h"
#include "shim/front/loader.h"
#include "shim/front/presence.h"
#include "shim/front/resolve.h"
#include "shim/front/narrow.h"
#include "shim/front/nesting.h"
#include "shim/mpi/engine.h"
#include "shim/core/log.h"

#define NOT_FOUND CSHIM_MPI_ERR_OTHER
#define COLD __attribute__((noinline))

/* An exported function and its real definitions. */
struct function {
    const char *name;
    const char *older;         /* name in older libraries, with the same contract; or NULL */
    struct function *with_int; /* MPI_X_c only: its MPI_X */
    void *emulation;           /* MPI_X_c only: emulation by MPI_X, for libraries without MPI_X_c */
    bool is_engines;           /* the engine replaces this function */
    bool has_tool;             /* `next` belongs to a tool */
    void *next;                /* next definition in symbol lookup order (may be a tool's), or
                                  `emulation` */
    void *bottom;              /* definition in the MPI library, or `emulation` */
    const void *own_from;      /* last caller of PMPI_X for a tool's own purposes; atomic */
    const void *handed_from;   /* last caller of PMPI_X for the program; atomic */
};

static struct function functions[CSHIM_MPI_FUNCTIONS];

/* Targets of calls. All are written before `engine`. */
static const struct cshim_mpi_engine *engine; /* NULL: every call is passed through */
/* Functions that MPI_X calls for the program: the engine's, or a tool's if one comes first. */
static struct cshim_mpi_wrapped by_program;
static void *next[CSHIM_MPI_FUNCTIONS]; /* next definitions; may be tools' */
static union {
    struct cshim_mpi_real functions;
    void *by_index[CSHIM_MPI_FUNCTIONS];
} bottom; /* definitions in the MPI library, which the engine calls */
_Static_assert(sizeof bottom.functions == sizeof bottom.by_index, "one pointer for each function");

/* Tools of the process: between this library and the MPI library, preloaded before this library, or
 * the program itself if it defines functions of MPI. */
#define TOOLS_MAX 16
static struct {
    const void *address; /* an address in the tool */
    /* The tool calls PMPI_X on behalf of the program only within MPI_X of this library. False for
     * tools that are called directly: those before this library, and those that define Fortran's
     * functions. */
    bool is_called_here;
} tools[TOOLS_MAX];
static unsigned tool_count;

static __thread struct cshim_nesting nesting __attribute__((tls_model("initial-exec")));

/* A program's call that a tool makes: the buffers, and the other arguments as integers, without
 * requests and hints. */
#define HANDED_NUMBERS 8
struct cshim_handed {
    enum cshim_mpi_index index;
    bool taken; /* the tool has called PMPI_X for it, or MPI_X has counted it */
    const void *input, *output;
    uint64_t numbers[HANDED_NUMBERS];
};
#define NUMBER(argument) ((uint64_t)(uintptr_t)(argument))
/* MPICH's handles have 32 bits; the upper half of their register is undefined. */
#define HANDLE(argument) ((uint64_t)(uint32_t)(uintptr_t)(argument))

static void *find_function(struct function *function, const void *caller, bool at_bottom);

/* Returns true if the library that defines MPI_X also defines MPI_X_c: the only MPI_X_c may be that
 * of a second MPI in the process. */
static bool is_in_library_of_int(const struct function *function, const void *caller)
{
    return cshim_same_object(cshim_resolve(function->name, caller, true),
                             cshim_resolve(function->with_int->name, caller, true));
}

static void *look_up(const struct function *function, const void *caller, bool at_bottom)
{
    if (function->with_int != NULL && !is_in_library_of_int(function, caller))
        return find_function(function->with_int, caller, true) != NULL ? function->emulation : NULL;
    void *address = cshim_resolve(function->name, caller, at_bottom);
    if (address == NULL && function->older != NULL)
        address = cshim_resolve(function->older, caller, at_bottom);
    return address;
}

/* Returns a real definition, and caches it once it is found. Concurrent lookups find the same one,
 * except perhaps in a process with two MPIs. */
static void *find_function(struct function *function, const void *caller, bool at_bottom)
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

static COLD void *real_function(struct function *function, const void *caller, bool at_bottom)
{
    void *address = find_function(function, caller, at_bottom);
    if (__builtin_expect(address == NULL, 0))
        cshim_log(CSHIM_LOG_ERROR, "no library after libcompshim.so defines %s", function->name);
    return address;
}

/* A call in progress, and its target. */
struct call {
    struct cshim_frame frame;
    const struct cshim_mpi_engine *engine; /* NULL: the call is only passed through */
    void *real;                            /* NULL: no such function */
};

/* Sets call->engine for an outermost call (any call if `at_any_depth`) whose real function is
 * known; otherwise sets it to NULL. */
static inline void find_engine(struct call *call, bool at_any_depth)
{
    call->engine = (at_any_depth || nesting.depth == 1) && call->real != NULL
                       ? __atomic_load_n(&engine, __ATOMIC_ACQUIRE)
                       : NULL;
}

/* Begins a call of MPI_X. */
static inline void begin_call(struct call *call, enum cshim_mpi_index index, const void *caller,
                              bool at_any_depth)
{
    cshim_enter(&nesting, &call->frame, caller);
    call->real = next[index];
    find_engine(call, at_any_depth);
    if (call->engine == NULL)
        call->real = real_function(&functions[index], caller, false);
}

/* Returns true if a PMPI_X call outside MPI_X is a tool's own rather than the program's, judged by
 * the caller's address or, in a helper function of a tool, by the stack. */
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
    /* The caller is a helper function of a tool. The answer is not cached, because several wrappers
     * may call the helper. */
    if (is_tools && wrapper == CSHIM_WRAPPER_NONE)
        return cshim_wrapper_above(caller, function->name) == CSHIM_WRAPPER_OTHER;
    const bool is_own = wrapper == CSHIM_WRAPPER_OTHER;
    __atomic_store_n(is_own ? &function->own_from : &function->handed_from, caller,
                     __ATOMIC_RELAXED);
    return is_own;
}

/* Makes a tool's own call bypass the engine. */
static COLD void bypass_own(struct call *call, struct function *function, const void *caller)
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
        bypass_own(call, &functions[index], caller);
    if (call->engine == NULL)
        call->real = real_function(&functions[index], caller, true);
}

/* Returns true if a buffer identifies a call: NULL and MPI_IN_PLACE (1 or -1) do not. */
static bool identifies_call(const void *buffer)
{
    return (uintptr_t)buffer + 1 > 2;
}

/* Returns true if a tool's PMPI_X call is the program's call. One equal buffer that identifies the
 * call is enough, because a tool may replace the other one on some ranks only. */
static bool is_same(const struct cshim_handed *handed, const struct cshim_handed *made)
{
    const bool same_input = handed->input == made->input,
               same_output = handed->output == made->output;
    return handed->index == made->index &&
           memcmp(handed->numbers, made->numbers, sizeof made->numbers) == 0 &&
           ((same_input && (same_output || identifies_call(made->input))) ||
            (same_output && identifies_call(made->output)));
}

/* Lets the engine make a PMPI_X call, if it is the first one of a tool for the program's call. */
static COLD void recognise(struct call *call, const struct cshim_handed *made)
{
    struct cshim_handed *handed = call->frame.outside.depth > 0 ? call->frame.outside.handed : NULL;
    const struct cshim_mpi_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (handed == NULL || handed->taken || active == NULL || !is_same(handed, made))
        return;
    handed->taken = true;
    call->engine = active;
}

/* Records that MPI_X has counted a call, for bypass_counted() when a tool makes the call. */
static inline void record_counted(struct cshim_handed *given, enum cshim_mpi_index index)
{
    if (__builtin_expect(tool_count > 0, 0)) {
        given->index = index;
        given->taken = true;
        nesting.handed = given;
    }
}

/* Prevents a tool's PMPI_X call from being counted if MPI_X has counted the program's call. The
 * PMPI_X call may seem to come from the program, because compilers turn the last call of a function
 * into a jump. */
static COLD void bypass_counted(struct call *call, enum cshim_mpi_index index)
{
    const struct cshim_nesting *outside = &call->frame.outside;
    if (outside->depth > 0 && outside->handed != NULL && outside->handed->index == index)
        call->engine = NULL;
}

/* Ends a call of the program that was handed to a tool. If the tool has made another call or none,
 * the engine has not seen the program's call, and counts it as `tool` if it succeeded. */
static int end_handed(const struct cshim_handed *handed, int status, MPI_Comm comm)
{
    const struct cshim_mpi_engine *active = __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
    if (!handed->taken && status == 0 && active != NULL)
        active->count_tool(comm);
    return status;
}

static void put_tools_first(void);

/* Returns true if a tool defines the function. Returns false for a function that the library has
 * under its older name only: programs built with it do not call the new name. */
static bool is_tool(const struct function *function, const void *caller)
{
    if (function->older != NULL && cshim_resolve(function->name, caller, true) == NULL)
        return false;
    return cshim_is_tool(function->next, function->bottom, function->name);
}

/* Adds a tool to the list, unless it is there or the list is full. `is_after`: this library comes
 * before the tool in symbol lookup order. */
static void add_tool(const void *address, bool is_after)
{
    bool has_fortran = false;
    for (unsigned i = 0; i < tool_count; i++)
        if (cshim_same_object(tools[i].address, address))
            return;
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS && is_after && !has_fortran; i++)
        has_fortran = cshim_defines_fortran(address, functions[i].name);
    if (tool_count < TOOLS_MAX) {
        tools[tool_count].address = address;
        tools[tool_count++].is_called_here = is_after && !has_fortran;
    }
}

/* Returns true if a tool imports none of the PMPI functions that the engine replaces: it probably
 * fetches them by dlsym(), and so calls the MPI library directly. */
static bool bypasses_front(const void *tool)
{
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS; i++)
        if (functions[i].is_engines && cshim_refers_to_profiled(tool, functions[i].name))
            return false;
    return true;
}

/* Fills `bottom`, `next` and the list of tools. Returns an address in a tool that probably calls
 * the MPI library directly, or NULL if there is no such tool. */
static const void *find_all(const void *caller)
{
    const void *past = NULL;
    for (int i = 0; i < CSHIM_MPI_FUNCTIONS; i++) {
        struct function *function = &functions[i];
        const void *preceding = cshim_preceding(function->name);
        if (preceding != NULL)
            add_tool(preceding, false);
        bottom.by_index[i] = find_function(function, caller, true);
        if (bottom.by_index[i] == NULL)
            continue;
        next[i] = find_function(function, caller, false);
        function->has_tool = is_tool(function, caller);
        if (!function->has_tool)
            continue;
        add_tool(next[i], true);
        if (function->is_engines && past == NULL && bypasses_front(next[i]))
            past = next[i];
    }
    return past;
}

static void stop_mpi_in_child(void)
{
    __atomic_store_n(&engine, NULL, __ATOMIC_RELEASE);
}

/* Opens and starts the engine for the MPI whose MPI_Init or MPI_Init_thread, `init`, has just
 * succeeded. Does nothing if that was a nested call, or if the shim is off. */
static void start_engine(const void *init, const void *caller)
{
    struct cshim_frame frame;
    if (nesting.depth > 0 || cshim_is_off())
        return;
    cshim_log_set_level(CSHIM_LOG_WARN);
    cshim_presence_notify();
    bool is_beside = false;
    const struct cshim_mpi_engine *opened = cshim_engine_open_mpi(init, &is_beside);
    if (opened == NULL)
        return;
    const void *past = find_all(caller);
    cshim_enter(&nesting, &frame, caller);
    const int active = opened->start(&bottom.functions, cshim_object_file(past), is_beside);
    cshim_leave(&nesting, &frame);
    if (active) {
        by_program = opened->functions;
        put_tools_first();
        pthread_atfork(NULL, NULL, stop_mpi_in_child);
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
