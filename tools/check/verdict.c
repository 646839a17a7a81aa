/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a verdict from the findings, with its reason and advice. */
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

const struct check_reason_facts check_reasons[CHECK_REASON_COUNT] = {
    [CHECK_INTERPOSED] = {"interposed", CHECK_CAUGHT, false},
    [CHECK_DAMAGED] = {"damaged", CHECK_NOT_CAUGHT, false},
    [CHECK_NO_PROGRAM] = {"no_program", CHECK_NOT_CAUGHT, false},
    [CHECK_MACHINE] = {"machine", CHECK_NOT_CAUGHT, true},
    [CHECK_STATIC] = {"static", CHECK_NOT_CAUGHT, true},
    [CHECK_C_LIBRARY] = {"c_library", CHECK_NOT_CAUGHT, true},
    [CHECK_SECURE] = {"secure", CHECK_NOT_CAUGHT, true},
    [CHECK_NO_ENGINE] = {"no_engine", CHECK_NOT_CAUGHT, true},
    [CHECK_NOT_WRAPPED] = {"not_wrapped", CHECK_NOT_CAUGHT, true},
    [CHECK_EMBEDDED] = {"embedded", CHECK_NOT_CAUGHT, true},
    [CHECK_OPENED] = {"opened", CHECK_MAYBE, false},
    [CHECK_INTERPRETS] = {"interprets", CHECK_MAYBE, false},
    [CHECK_STARTS] = {"starts", CHECK_MAYBE, false},
    [CHECK_MISSING] = {"missing", CHECK_MAYBE, false},
    /* compshim run does not warn: the program may start another one that has calls */
    [CHECK_NO_CALL] = {"no_call", CHECK_NOT_CAUGHT, false},
};

const struct check_library_facts check_libraries[CHECK_LIBRARY_COUNT] = {
    [CHECK_MPI] = {"mpi", "MPI", "libmpi.so libmpi_abi.so libmpich.so",
                   "no preload reaches it, unless you build %s: then link it to the shared libmpi, "
                   "without -Bsymbolic (JAX on CPUs has nothing that is caught)"},
    [CHECK_NCCL] = {"nccl", "NCCL", "libnccl.so",
                    "no preload reaches it, unless you build %s: then use the shared libnccl "
                    "(Horovod: HOROVOD_NCCL_LINK=SHARED, PyTorch: USE_STATIC_NCCL=0)"},
    [CHECK_GLOO] =
        {"gloo", "gloo", "libgloo.so",
         "no preload reaches it, unless you build %s: then link it to the shared libgloo, without "
         "-Bsymbolic (Horovod: use MPI or NCCL; JAX on CPUs has nothing that is caught)"},
};

static const struct check_abi open_mpi = {"Open MPI", "libcompshim-ompi.so"};
static const struct check_abi mpich = {"MPICH or a relative (MPICH ABI)", "libcompshim-mpich.so"};
static const struct check_abi intel_mpi = {"Intel MPI (MPICH ABI)", "libcompshim-mpich.so"};
static const struct check_abi standard_abi = {"an MPI with the MPI-5 ABI", "libcompshim-abi.so"};
static const struct check_abi unknown_mpi = {"an MPI of an unknown ABI", NULL};
static const struct check_abi nccl = {"NCCL", "libcompshim-nccl.so"};
static const struct check_abi gloo = {"gloo", "libcompshim-gloo.so"};

const char *check_verdict_name(enum check_reason reason)
{
    static const char *const names[] = {
        [CHECK_CAUGHT] = "caught", [CHECK_MAYBE] = "maybe", [CHECK_NOT_CAUGHT] = "not caught"};
    return names[check_reasons[reason].verdict];
}

static void set_judgement(struct check_judgement *judgement, enum check_reason reason,
                          const char *remedy, const char *explanation)
{
    judgement->reason = reason;
    judgement->remedy = remedy;
    judgement->explanation = explanation;
}

static const char *object_name(const struct check_findings *findings, size_t index)
{
    return basename(findings->closure.objects[index].name);
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

/* Returns true if the installed libcompshim.so has a wrapper for the function of a use. Fortran
 * functions of an MPI library call the C function as MPI_X (MPICH) or PMPI_X (Open MPI): the front
 * wraps both names or neither. */
static bool is_wrapped(const struct check_findings *findings, const struct check_use *use)
{
    return defines(&findings->front,
                   use->fortran ? tool_format("P%s", use->function) : use->symbol);
}

/* Returns the type of a library. An MPI is recognised by its name, a symbol that it defines (Open
 * MPI) or a text that it contains (Intel MPI). */
static const struct check_abi *abi_of(const struct closure_object *object,
                                      enum check_library library)
{
    const char *name = object->object.soname != NULL ? object->object.soname : object->name;
    if (library != CHECK_MPI)
        return library == CHECK_NCCL ? &nccl : &gloo;
    if (tool_starts_with(name, "libmpi_abi."))
        return &standard_abi;
    if (defines(&object->object, "ompi_mpi_comm_self"))
        return &open_mpi;
    if (object->path == NULL && tool_starts_with(name, "libmpi.so.40 libmpi.so.20"))
        return &open_mpi;
    if (object_contains(&object->object, "Intel(R) MPI Library"))
        return &intel_mpi;
    const char *version = strstr(name, ".so.");
    return version != NULL && strcmp(version, ".so.12") == 0 ? &mpich : &unknown_mpi;
}

/* Finds the object that defines the C functions: the first one in lookup order, else one that has
 * the library's name and is missing on this machine. */
static void find_provider(const struct check_findings *findings, enum check_library library,
                          struct check_judgement *judgement)
{
    const struct closure *closure = &findings->closure;
    const char *names = check_libraries[library].files;
    judgement->provider = SIZE_MAX;
    for (size_t i = 0; i < findings->use_count && judgement->provider == SIZE_MAX; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->library == library && !use->fortran &&
            (use->kind == CHECK_PROVIDES || use->kind == CHECK_EMBEDS))
            judgement->provider = use->object;
    }
    for (size_t i = 1; i < closure->count && judgement->provider == SIZE_MAX; i++)
        if (closure->objects[i].path == NULL && tool_starts_with(closure->objects[i].name, names))
            judgement->provider = i;
    if (judgement->provider != SIZE_MAX)
        judgement->abi = abi_of(&closure->objects[judgement->provider], library);
}

/* Returns true if a program's call would reach a wrapper. A Fortran call does if a Fortran layer
 * converts it to a C call. */
static bool is_interposable(const struct check_findings *findings, const struct check_use *use)
{
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

/* Evidence that a use gives about the program's calls, from best to worst. */
enum standing {
    CAUGHT, /* a call that reaches a wrapper */
    CALLED, /* a call that reaches no wrapper */
    COPIED, /* a copy of the function, to which the program's calls are bound */
    OPENED, /* the library may be opened at run time */
    SILENT  /* no evidence */
};

static enum standing standing_of(const struct check_findings *findings, const struct check_use *use)
{
    if (use->kind == CHECK_NAMES || use->kind == CHECK_FETCHES)
        return OPENED;
    if (use->kind == CHECK_BINDS || use->kind == CHECK_HIDES || use->kind == CHECK_HOLDS)
        return COPIED;
    if (use->internal || use->kind == CHECK_PROVIDES)
        return SILENT;
    return is_interposable(findings, use) && is_wrapped(findings, use) ? CAUGHT : CALLED;
}

/* Returns the engine's file in the folder of libcompshim.so, or NULL. */
static const char *find_engine(const struct check_findings *findings, const struct check_abi *abi)
{
    if (abi->engine == NULL)
        return NULL;
    const int folder = (int)(strrchr(findings->front_path, '/') - findings->front_path);
    const char *path = tool_format("%.*s/%s", folder, findings->front_path, abi->engine);
    return access(path, R_OK) == 0 ? path : NULL;
}

static const char *how_to_get_engine(const struct check_findings *findings,
                                     const struct check_abi *abi)
{
    if (abi->engine == NULL)
        return "build the program with Open MPI";
    if (abi == &mpich || abi == &intel_mpi)
        return tool_format("put %s beside %s if your version has it, or build the program with "
                           "Open MPI",
                           abi->engine, findings->front_path);
    return tool_format("put %s of the same build beside %s", abi->engine, findings->front_path);
}

/* Judges a call that reaches the front: it also needs an engine. */
static void judge_caught(const struct check_findings *findings, const struct check_use *use,
                         const char *name, struct check_judgement *judgement)
{
    const char *caller = object_name(findings, use->object);
    const struct check_abi *abi = judgement->abi;
    const char *start = "start the program that loads it with compshim run";
    if (findings->closure.objects[0].object.interpreter != NULL)
        start = tool_format("start it so: compshim run -- %s%s",
                            use->library == CHECK_MPI ? "mpirun -n 4 " : "", name);
    judgement->engine = abi != NULL ? find_engine(findings, abi) : NULL;
    if (abi == NULL)
        set_judgement(judgement, CHECK_MISSING,
                      tool_format("check the program that loads %s together with its %s", caller,
                                  check_libraries[use->library].name),
                      tool_format("%s calls %s, and no library that it needs defines that", caller,
                                  use->shown));
    else if (judgement->engine != NULL)
        set_judgement(judgement, CHECK_INTERPOSED, start,
                      tool_format("%s calls %s of %s, through the loader; %s serves it", caller,
                                  use->shown, abi->name, abi->engine));
    else
        set_judgement(
            judgement, CHECK_NO_ENGINE, how_to_get_engine(findings, abi),
            tool_format(
                "%s calls %s of %s, for which no engine is installed: its calls are passed through",
                caller, use->shown, abi->name));
}

static void judge_not_wrapped(const struct check_findings *findings, const struct check_use *use,
                              struct check_judgement *judgement)
{
    const char *caller = object_name(findings, use->object);
    if (!is_interposable(findings, use))
        set_judgement(judgement, CHECK_MISSING,
                      "run it with the shim: its report counts the calls that were caught",
                      tool_format("%s calls %s, and no Fortran layer that it needs calls P%s",
                                  caller, use->shown, use->function));
    else
        set_judgement(judgement, CHECK_NOT_WRAPPED,
                      tool_format("install a compshim that wraps %s", use->function),
                      tool_format("%s calls %s, which this libcompshim.so does not wrap", caller,
                                  use->shown));
}

/* Judges one library by the best of its uses; of equally good uses, by the first. */
static void judge_library(const struct check_findings *findings, enum check_library library,
                          const char *name, struct check_judgement *judgement)
{
    const struct check_use *best = NULL;
    enum standing standing = SILENT;
    for (size_t i = 0; i < findings->use_count && standing != CAUGHT; i++) {
        const struct check_use *use = &findings->uses[i];
        const enum standing next = standing_of(findings, use);
        if (use->library == library && next < standing) {
            best = use;
            standing = next;
        }
    }
    find_provider(findings, library, judgement);
    switch (standing) {
    case CAUGHT:
        judge_caught(findings, best, name, judgement);
        break;
    case CALLED:
        judge_not_wrapped(findings, best, judgement);
        break;
    case COPIED:
        set_judgement(
            judgement, CHECK_EMBEDDED,
            tool_format(check_libraries[library].own_copy, object_name(findings, best->object)),
            tool_format("%s has a copy of %s of its own, and its calls are bound to that",
                        object_name(findings, best->object),
                        best->function != NULL ? best->shown : check_libraries[library].name));
        break;
    case OPENED:
        set_judgement(
            judgement, CHECK_OPENED,
            "run it with compshim run --dlsym: the report counts the calls that were caught",
            tool_format("%s opens libraries at run time and %s %s: functions that it fetches "
                        "with dlsym, or of a library opened with RTLD_DEEPBIND, are not caught",
                        object_name(findings, best->object),
                        best->kind == CHECK_NAMES ? "names" : "fetches", best->symbol));
        break;
    case SILENT:
        set_judgement(
            judgement, CHECK_NO_CALL, "nothing to do",
            tool_format("nothing in it calls an all-reduce, reduce or reduce-scatter of %s",
                        check_libraries[library].name));
    }
}

/* Judges a program whose files have no calls. */
static void judge_no_call(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct closure_object *missing = NULL;
    const char *file = basename(findings->program.path);
    const enum check_calling calling = check_calling(findings->program.path);
    for (size_t i = 0; i < findings->closure.count; i++) {
        const struct closure_object *object = &findings->closure.objects[i];
        if (missing == NULL && (object->path == NULL || object->object.damage != NULL))
            missing = object;
    }
    if (calling == CHECK_INTERPRETER)
        set_judgement(
            judgement, CHECK_INTERPRETS,
            "check the extension module that calls MPI, NCCL or gloo: of mpi4py MPI.*.so, of "
            "PyTorch "
            "libtorch_cpu.so and libtorch_cuda.so in the folder lib of what this prints: "
            "python3 -c 'import torch; print(torch.__path__[0])'",
            tool_format("which libraries %s loads is known only when it runs", file));
    else if (calling == CHECK_STARTER)
        set_judgement(judgement, CHECK_STARTS, "check the program that it starts",
                      tool_format("%s starts other programs, and they inherit the preload", file));
    else if (missing != NULL)
        set_judgement(judgement, CHECK_MISSING,
                      "make it findable (module load, LD_LIBRARY_PATH) and check again",
                      tool_format("%s, which %s needs, %s", missing->name,
                                  object_name(findings, missing->loader),
                                  missing->path == NULL ? "was not found" : "is damaged"));
    else
        set_judgement(
            judgement, CHECK_NO_CALL, "nothing to do: the preload is harmless here",
            tool_format("neither %s nor a library that it needs calls an all-reduce, reduce or "
                        "reduce-scatter of MPI, NCCL or gloo",
                        file));
}

/* Returns true if an object is a program without a dynamic linker. A position-independent program
 * differs from a library by a flag, which older linkers do not set. Without the flag, an object
 * with a name (DT_SONAME), without an entry point, or that needs libraries counts as a library. */
static bool is_static(const struct object *object)
{
    size_t position = 0;
    if (object->interpreter != NULL)
        return false;
    return object->header.e_type == ET_EXEC || object->pie ||
           (object->soname == NULL && object->header.e_entry != 0 &&
            object_next_needed(object, &position) == NULL);
}

static const char *describe_machine(const struct object *object)
{
    static const char *const names[] = {
        [EM_386] = "i386",        [EM_X86_64] = "x86-64",   [EM_ARM] = "ARM",
        [EM_AARCH64] = "AArch64", [EM_PPC64] = "PowerPC64", [EM_RISCV] = "RISC-V",
        [EM_S390] = "S/390",
    };
    const size_t machine = object->header.e_machine;
    const char *name = machine < sizeof names / sizeof *names ? names[machine] : NULL;
    return tool_format("%s, %s bits, %s-endian", name != NULL ? name : "another machine",
                       object->header.e_ident[EI_CLASS] == ELFCLASS64 ? "64" : "32",
                       object->header.e_ident[EI_DATA] == ELFDATA2MSB ? "big" : "little");
}

/* Returns why the dynamic linker ignores LD_PRELOAD if this user runs the file ("is set-user-ID
 * root", set-group-ID, capabilities); NULL if it does not. */
static char *secure_mode(const char *path)
{
    struct stat status;
    const mode_t group_execute = S_ISGID | S_IXGRP; /* set-group-ID needs the x bit */
    if (stat(path, &status) != 0)
        return NULL;
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
        const struct passwd *owner = getpwuid(status.st_uid);
        return owner != NULL ? tool_format("is set-user-ID %s", owner->pw_name)
                             : tool_format("is set-user-ID %u", status.st_uid);
    }
    if ((status.st_mode & group_execute) == group_execute && status.st_gid != getgid())
        return tool_format("is set-group-ID %u", status.st_gid);
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return tool_copy("has file capabilities");
    return NULL;
}

/* Judges a program that no preload can enter, whatever it calls. Returns false for all others. */
static bool judge_file(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct object *object = &findings->closure.objects[0].object, *front = &findings->front;
    const char *file = basename(findings->program.path);
    const char *secure = secure_mode(findings->program.path);
    if (!object_is_elf(object) && check_calling(findings->program.path) == CHECK_INTERPRETER)
        return false;
    if (!object_is_elf(object) && findings->program.scripts == CHECK_SCRIPTS_MAX)
        set_judgement(judgement, CHECK_NO_PROGRAM, "let one of the scripts name a program",
                      tool_format("#! leads from script to script, and Linux follows %d of them",
                                  CHECK_SCRIPTS_MAX));
    else if (!object_is_elf(object))
        set_judgement(
            judgement, CHECK_NO_PROGRAM, "check the program that runs it",
            tool_format("%s is neither an ELF file nor a script that begins with #!", file));
    else if (!object_is_for(object, front))
        set_judgement(judgement, CHECK_MACHINE, "build compshim for the program's machine",
                      tool_format("%s is for %s, and libcompshim.so is for %s", file,
                                  describe_machine(object), describe_machine(front)));
    else if (object->damage != NULL)
        set_judgement(judgement, CHECK_DAMAGED, "build, copy or install it again",
                      tool_format("%s: %s", file, object->damage));
    else if (is_static(object))
        set_judgement(
            judgement, CHECK_STATIC,
            "link it without -static, to the shared library of MPI, NCCL or gloo",
            tool_format("%s is linked statically: no loader runs that could preload", file));
    else if (object->interpreter != NULL &&
             !tool_starts_with(basename(object->interpreter), "ld-linux ld64.so ld.so ld-2."))
        set_judgement(judgement, CHECK_C_LIBRARY, "build it for glibc, as libcompshim.so is",
                      tool_format("%s runs with %s, which is not the loader of glibc", file,
                                  basename(object->interpreter)));
    else if (secure != NULL)
        set_judgement(
            judgement, CHECK_SECURE,
            "run a copy of the file: cp leaves such bits and capabilities behind",
            tool_format("%s %s, and the loader ignores LD_PRELOAD for you", file, secure));
    else
        return false;
    return true;
}

void check_judge(struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    /* the best verdict; of equal ones, the first library's */
    const struct check_judgement *best = NULL;
    for (enum check_library i = 0; i < CHECK_LIBRARY_COUNT; i++) {
        const struct check_judgement *library = &result->libraries[i];
        judge_library(findings, i, name, &result->libraries[i]);
        if (library->reason != CHECK_NO_CALL &&
            (best == NULL ||
             check_reasons[library->reason].verdict < check_reasons[best->reason].verdict))
            best = library;
    }
    if (judge_file(findings, &result->program))
        return;
    if (best != NULL)
        result->program = *best;
    else
        judge_no_call(findings, &result->program);
}
