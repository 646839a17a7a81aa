/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a verdict of the findings, with its reason and what to do. */
#include <string.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

static const struct check_abi open_mpi = {"Open MPI", "libcompshim-ompi.so"};
static const struct check_abi mpich = {"MPICH or a relative (MPICH ABI)", "libcompshim-mpich.so"};
static const struct check_abi intel_mpi = {"Intel MPI (MPICH ABI)", "libcompshim-mpich.so"};
static const struct check_abi standard_abi = {"an MPI with the MPI-5 ABI", "libcompshim-abi.so"};
static const struct check_abi unknown_mpi = {"an MPI of an unknown ABI", NULL};
static const struct check_abi nccl = {"NCCL", "libcompshim-nccl.so"};

static const char *object_name(const struct check_findings *findings, size_t index)
{
    return check_base_name(findings->closure.objects[index].name);
}

static bool defines(const struct object *object, const char *name)
{
    struct object_symbol symbol;
    size_t position = 0;
    while (object_next_symbol(object, OBJECT_DYNAMIC, &position, &symbol))
        if (symbol.defined && symbol.preemptible && strcmp(symbol.name, name) == 0)
            return true;
    return false;
}

/* Whether the installed libcompshim.so has a wrapper. The MPI library's Fortran functions call
 * PMPI_X, which is where the wrapper catches them. */
static bool is_wrapped(const struct check_findings *findings, const struct check_use *use)
{
    return defines(&findings->front,
                   use->fortran ? tool_format("P%s", use->function) : use->symbol);
}

/* The kind of a library: by the symbols it defines, as the front does it, or by its name if it is
 * not installed on this machine. */
static const struct check_abi *abi_of(const struct closure_object *object,
                                      enum check_library library)
{
    const char *name = object->object.soname != NULL ? object->object.soname : object->name;
    if (library == CHECK_NCCL)
        return &nccl;
    if (check_starts_with(name, "libmpi_abi."))
        return &standard_abi;
    if (defines(&object->object, "ompi_mpi_comm_self"))
        return &open_mpi;
    if (object->path == NULL &&
        (check_starts_with(name, "libmpi.so.40") || check_starts_with(name, "libmpi.so.20")))
        return &open_mpi;
    if (object_mentions(&object->object, "Intel(R) MPI Library"))
        return &intel_mpi;
    const char *version = strstr(name, ".so.");
    return version != NULL && strcmp(version, ".so.12") == 0 ? &mpich : &unknown_mpi;
}

/* Whether this is a name of the library with the C functions. */
static bool is_library_name(const char *name, enum check_library library)
{
    if (library == CHECK_NCCL)
        return check_starts_with(name, "libnccl.so");
    return check_starts_with(name, "libmpi.so") || check_starts_with(name, "libmpi_abi.so") ||
           check_starts_with(name, "libmpich.so");
}

/* Finds the object that defines the C functions: the first one in the loader's order, or one that
 * is missing on this machine. */
static void find_provider(const struct check_findings *findings, enum check_library library,
                          struct check_judgement *judgement)
{
    const struct closure *closure = &findings->closure;
    judgement->provider = SIZE_MAX;
    for (size_t i = 0; i < findings->use_count && judgement->provider == SIZE_MAX; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->library == library && !use->fortran &&
            (use->kind == CHECK_PROVIDES || use->kind == CHECK_EMBEDS))
            judgement->provider = use->object;
    }
    for (size_t i = 1; i < closure->count && judgement->provider == SIZE_MAX; i++)
        if (closure->objects[i].path == NULL && is_library_name(closure->objects[i].name, library))
            judgement->provider = i;
    if (judgement->provider != SIZE_MAX)
        judgement->abi = abi_of(&closure->objects[judgement->provider], library);
}

/* Whether a call would reach a wrapper. A Fortran call does if a Fortran layer makes a C call of
 * it. */
static bool is_interposable(const struct check_findings *findings, const struct check_use *use)
{
    if (use->internal || (use->kind != CHECK_CALLS && use->kind != CHECK_EMBEDS))
        return false;
    if (!use->fortran)
        return true;
    for (size_t i = 0; i < findings->use_count; i++) {
        const struct check_use *layer = &findings->uses[i];
        if (layer->internal && layer->kind == CHECK_CALLS &&
            strcmp(layer->function, use->function) == 0)
            return true;
    }
    return false;
}

/* The first use of a library's functions that the callback accepts. */
static const struct check_use *
find_use(const struct check_findings *findings, enum check_library library,
         bool (*accept)(const struct check_findings *, const struct check_use *))
{
    for (size_t i = 0; i < findings->use_count; i++)
        if (findings->uses[i].library == library && accept(findings, &findings->uses[i]))
            return &findings->uses[i];
    return NULL;
}

static bool is_caught(const struct check_findings *findings, const struct check_use *use)
{
    return is_interposable(findings, use) && is_wrapped(findings, use);
}

static bool is_client_call(const struct check_findings *findings, const struct check_use *use)
{
    (void)findings;
    return !use->internal && (use->kind == CHECK_CALLS || use->kind == CHECK_EMBEDS);
}

static bool is_own_copy(const struct check_findings *findings, const struct check_use *use)
{
    (void)findings;
    return use->kind == CHECK_BINDS || use->kind == CHECK_HIDES;
}

/* The engine's file beside libcompshim.so, NULL if it is not there. */
static const char *find_engine(const struct check_findings *findings, const struct check_abi *abi)
{
    if (abi->engine == NULL)
        return NULL;
    const int folder = (int)(strrchr(findings->front_path, '/') - findings->front_path);
    const char *path = tool_format("%.*s/%s", folder, findings->front_path, abi->engine);
    return access(path, R_OK) == 0 ? path : NULL;
}

static const char *how_to_start(const struct check_findings *findings, enum check_library library,
                                const char *name)
{
    if (findings->closure.objects[0].object.interpreter == NULL)
        return "start the program that loads it with compshim run";
    return tool_format("start it so: compshim run -- %s%s",
                       library == CHECK_MPI ? "mpirun -n 4 " : "", name);
}

static const char *how_to_get_engine(const struct check_findings *findings,
                                     const struct check_abi *abi)
{
    if (abi->engine == NULL)
        return "build the program with Open MPI";
    if (abi == &nccl || abi == &open_mpi || abi == &standard_abi)
        return tool_format("put %s of the same build beside %s", abi->engine, findings->front_path);
    return tool_format("put %s beside %s if your version has it, or build the program with Open "
                       "MPI",
                       abi->engine, findings->front_path);
}

/* Judges a call that reaches the front: an engine has to be there for it. */
static void judge_caught(const struct check_findings *findings, const struct check_use *use,
                         const char *name, struct check_judgement *judgement)
{
    const char *caller = object_name(findings, use->object);
    const struct check_abi *abi = judgement->abi;
    judgement->engine = abi != NULL ? find_engine(findings, abi) : NULL;
    if (abi == NULL)
        check_set(
            judgement, CHECK_MISSING,
            tool_format("check the program that loads %s together with its MPI or NCCL", caller),
            "%s calls %s, and no library that it needs defines that", caller, use->symbol);
    else if (judgement->engine != NULL)
        check_set(judgement, CHECK_INTERPOSED, how_to_start(findings, use->library, name),
                  "%s calls %s of %s, through the loader; %s serves it", caller, use->symbol,
                  abi->name, abi->engine);
    else
        check_set(judgement, CHECK_NO_ENGINE, how_to_get_engine(findings, abi),
                  "%s calls %s of %s, for which no engine is installed: its calls are passed on",
                  caller, use->symbol, abi->name);
}

static void judge_own_copy(const struct check_findings *findings, const struct check_use *use,
                           struct check_judgement *judgement)
{
    const char *owner = object_name(findings, use->object);
    check_set(judgement, CHECK_EMBEDDED,
              tool_format(use->library == CHECK_MPI
                              ? "link %s to the shared libmpi, and without -Bsymbolic"
                              : "build %s with the shared libnccl (Horovod: "
                                "HOROVOD_NCCL_LINK=SHARED, PyTorch: USE_STATIC_NCCL=0)",
                          owner),
              "%s has a copy of %s of its own, and its calls are bound to that", owner,
              use->symbol);
}

static void judge_not_wrapped(const struct check_findings *findings, const struct check_use *use,
                              struct check_judgement *judgement)
{
    const char *caller = object_name(findings, use->object);
    if (!is_interposable(findings, use))
        check_set(judgement, CHECK_MISSING,
                  "run it with the shim: its report counts the calls that were caught",
                  "%s calls %s, and no Fortran layer that it needs calls P%s", caller, use->symbol,
                  use->function);
    else
        check_set(judgement, CHECK_NOT_WRAPPED,
                  tool_format("install a compshim that wraps %s", use->function),
                  "%s calls %s, which this libcompshim.so does not wrap", caller, use->symbol);
}

static const struct check_hint *find_hint(const struct check_findings *findings,
                                          enum check_library library)
{
    for (size_t i = 0; i < findings->hint_count; i++)
        if (findings->hints[i].library == library)
            return &findings->hints[i];
    return NULL;
}

/* Judges the use of one library. */
static void judge_library(const struct check_findings *findings, enum check_library library,
                          const char *name, struct check_judgement *judgement)
{
    const struct check_use *use = NULL;
    const struct check_hint *hint = find_hint(findings, library);
    find_provider(findings, library, judgement);
    if ((use = find_use(findings, library, is_caught)) != NULL)
        judge_caught(findings, use, name, judgement);
    else if ((use = find_use(findings, library, is_client_call)) != NULL)
        judge_not_wrapped(findings, use, judgement);
    else if ((use = find_use(findings, library, is_own_copy)) != NULL)
        judge_own_copy(findings, use, judgement);
    else if (hint != NULL)
        check_set(judgement, CHECK_OPENED,
                  "run it with compshim run --dlsym: the report counts the calls that were caught",
                  "%s opens libraries at run time and names %s: functions that it fetches with "
                  "dlsym, or of a library opened with RTLD_DEEPBIND, are not caught",
                  object_name(findings, hint->object), hint->text);
    else
        check_set(judgement, CHECK_NO_CALL, "nothing to do",
                  "nothing in it calls an all-reduce, reduce or reduce-scatter of %s",
                  library == CHECK_MPI ? "MPI" : "NCCL");
}

static const struct closure_object *find_missing(const struct closure *closure)
{
    for (size_t i = 1; i < closure->count; i++)
        if (closure->objects[i].path == NULL || closure->objects[i].object.damage != NULL)
            return &closure->objects[i];
    return NULL;
}

/* Whether gloo is there, PyTorch's library for collectives: in a file of its own or inside PyTorch.
 */
static bool has_gloo(const struct closure *closure)
{
    for (size_t i = 0; i < closure->count; i++) {
        const char *name = check_base_name(closure->objects[i].name);
        if (check_starts_with(name, "libgloo.so") || check_starts_with(name, "libtorch_cpu.so"))
            return true;
    }
    return false;
}

/* Judges a program whose files have no calls. */
static void judge_no_call(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct closure_object *missing = find_missing(&findings->closure);
    const char *file = check_base_name(findings->program.path);
    const enum check_calling calling = check_calling(findings->program.path);
    if (calling == CHECK_INTERPRETER)
        check_set(judgement, CHECK_INTERPRETS,
                  "check the extension module that calls MPI or NCCL, such as mpi4py's MPI.*.so or "
                  "PyTorch's libtorch_cuda.so",
                  "%s loads libraries as the programs that it interprets ask for them", file);
    else if (calling == CHECK_STARTER)
        check_set(judgement, CHECK_STARTS, "check the program that it starts",
                  "%s starts other programs, and they inherit the preload", file);
    else if (missing != NULL)
        check_set(judgement, CHECK_MISSING,
                  "make it findable (module load, LD_LIBRARY_PATH) and check again",
                  "%s, which %s needs, %s", missing->name, object_name(findings, missing->loader),
                  missing->path == NULL ? "was not found" : "is damaged");
    else if (has_gloo(&findings->closure))
        check_set(judgement, CHECK_NO_CALL,
                  "train over NCCL or with Horovod; the preload is harmless here",
                  "%s has PyTorch's gloo, and calls no all-reduce of MPI or NCCL: PyTorch DDP over "
                  "gloo is not MPI, even where mpirun starts it",
                  file);
    else
        check_set(judgement, CHECK_NO_CALL, "nothing to do: the preload is harmless here",
                  "neither %s nor a library that it needs calls an all-reduce, reduce or "
                  "reduce-scatter of MPI or NCCL",
                  file);
}

void check_judge(struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    /* The better verdict stands for the program; MPI's if both are the same. */
    const struct check_judgement *best = NULL;
    for (enum check_library i = 0; i < CHECK_LIBRARY_COUNT; i++) {
        const struct check_judgement *library = &result->libraries[i];
        judge_library(findings, i, name, &result->libraries[i]);
        if (library->reason != CHECK_NO_CALL &&
            (best == NULL || check_verdict(library->reason) < check_verdict(best->reason)))
            best = library;
    }
    if (check_judge_file(findings, &result->program))
        return;
    if (best != NULL)
        result->program = *best;
    else
        judge_no_call(findings, &result->program);
}
