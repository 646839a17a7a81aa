/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where a program and its libraries call and define the functions that the shim wraps. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "mpi_names.h"
#include "nccl_names.h"
#include "tools/check/check.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"

/* Functions of NCCL and MPI that are compressed without a rule that names their collective. Each
 * has a second name, with the prefix P (MPI) or p (NCCL). */
static const char *const functions[] = {CSHIM_NCCL_COMPRESSED_NAMES, CSHIM_MPI_COMPRESSED_NAMES};

/* The function of gloo that check looks for, and its C++ symbol. */
#define GLOO_ALLREDUCE "gloo::allreduce"
#define GLOO_ALLREDUCE_SYMBOL "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE"

/* Returns true for a suffix that Fortran compilers or the mpi_f08 modules add, in upper or lower
 * case. */
static bool is_fortran_suffix(const char *text)
{
    static const char *const suffixes[] = {"", "_", "__", "_f", "_f08", "_f08_", "_f08ts_"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(text, suffixes[i]) == 0)
            return true;
    return false;
}

/* Fills in the names, library and language of a use from a symbol's name. Returns false if the
 * symbol is none of the functions. */
static bool match(const char *symbol, struct check_use *use)
{
    const char *name = symbol + (tolower((unsigned char)*symbol) == 'p');
    use->symbol = use->shown = symbol;
    if (strcmp(symbol, GLOO_ALLREDUCE_SYMBOL) == 0) {
        use->function = use->shown = GLOO_ALLREDUCE;
        use->library = CHECK_GLOO;
        return true;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        use->function = functions[i];
        use->library = functions[i][0] == 'n' ? CHECK_NCCL : CHECK_MPI;
        use->fortran = strcmp(name, functions[i]) != 0;
        const size_t length = strlen(functions[i]);
        if (!use->fortran ||
            (use->library == CHECK_MPI && strncasecmp(name, functions[i], length) == 0 &&
             is_fortran_suffix(name + length)))
            return true;
    }
    return false;
}

/* Returns true if an object is part of an installation of MPI, NCCL or gloo: it calls the functions
 * even if the program does not. */
static bool is_internal(const struct closure_object *object)
{
    static const char names[] =
        "libmpi. libmpi_abi. libmpi_cxx. libmpi_mpifh libmpi_usempi libmpi_cray libmpi_gnu "
        "libmpi_intel libmpi_amd libmpi_nvidia libmpi_mt. libmpi++ libmpich libmpifort libmpicxx "
        "libpmpi libopen- libnccl. libpnccl libgloo.";
    const char *name = object->object.soname != NULL ? object->object.soname : object->name;
    return tool_starts_with(basename(name), names);
}

/* Returns how an object uses a function that one of its symbols names. The dynamic linker searches
 * the executable first, then preloads, then libraries. */
static enum check_use_kind kind_of_use(const struct closure_object *object,
                                       const struct check_use *use,
                                       const struct object_symbol *symbol)
{
    bool is_executable = use->object == 0 && object->object.interpreter != NULL;
    if (!symbol->defined)
        return CHECK_CALLS;
    if (use->internal)
        return CHECK_PROVIDES;
    if (symbol->preemptible && symbol->relocated && !object->object.symbolic && !is_executable)
        return CHECK_EMBEDS;
    return CHECK_BINDS;
}

/* Returns true if a symbol is a table of stubs that jump to a library's functions, which Implib.so
 * names _LIBRARY_tramp_table. The stubs open the library at run time. JAX's plugin has them. */
static bool is_table_of_stubs(const char *symbol, enum check_library library)
{
    const char *name = symbol + (symbol[0] == '_') + (strncmp(symbol, "_lib", 4) == 0 ? 3 : 0);
    const char *key = check_libraries[library].key, *end = strstr(symbol, "_tramp_table");
    return end != NULL && strcmp(end, "_tramp_table") == 0 &&
           strncmp(name, key, strlen(key)) == 0 && name[strlen(key)] == '_';
}

static bool has_use(const struct check_findings *findings, size_t object, const char *symbol)
{
    for (size_t i = 0; i < findings->use_count; i++)
        if (findings->uses[i].object == object && strcmp(findings->uses[i].symbol, symbol) == 0)
            return true;
    return false;
}

/* Adds the uses in one of an object's symbol tables. Returns true if the object imports dlopen or
 * dlmopen. */
static bool find_symbols(struct check_findings *findings, size_t index, bool internal,
                         enum object_table_kind kind)
{
    const struct closure_object *object = &findings->closure.objects[index];
    struct object_symbol symbol;
    size_t position = 0;
    bool opens = false, is_fetched[CHECK_LIBRARY_COUNT] = {false};
    while (object_next_symbol(&object->object, kind, &position, &symbol)) {
        struct check_use use = {.object = index, .internal = internal};
        for (enum check_library i = 0; i < CHECK_LIBRARY_COUNT; i++)
            is_fetched[i] |= is_table_of_stubs(symbol.name, i);
        findings->copies |= symbol.copied && tool_starts_with(symbol.name, "ompi_ MPI");
        if (!symbol.defined && symbol.relocated) {
            const bool namespace = strcmp(symbol.name, "dlmopen") == 0;
            findings->namespaces |= namespace;
            opens |= namespace || strcmp(symbol.name, "dlopen") == 0;
        }
        if ((!symbol.defined && !symbol.relocated) || !match(symbol.name, &use) ||
            (kind == OBJECT_STATIC && has_use(findings, index, symbol.name)))
            continue;
        use.kind = kind == OBJECT_STATIC ? CHECK_HIDES : kind_of_use(object, &use, &symbol);
        findings->uses = tool_append(findings->uses, &findings->use_count, sizeof use, &use);
    }
    for (size_t i = 0; i < findings->use_count; i++) {
        struct check_use *use = &findings->uses[i];
        if (use->object == index && use->kind == CHECK_HIDES && is_fetched[use->library])
            use->kind = CHECK_FETCHES;
    }
    return opens;
}

/* Finds names of libraries that a program could pass to dlopen(). */
static void find_names(struct check_findings *findings, size_t index)
{
    static const char *const names[] = {"libmpi.so", "libmpich.so", "libmpi_abi.so", "libnccl.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct check_use use = {.object = index,
                                      .symbol = names[i],
                                      .shown = names[i],
                                      .library = names[i][3] == 'n' ? CHECK_NCCL : CHECK_MPI,
                                      .kind = CHECK_NAMES};
        if (object_contains(&findings->closure.objects[index].object, names[i]))
            findings->uses = tool_append(findings->uses, &findings->use_count, sizeof use, &use);
    }
}

/* Finds texts that only the code of gloo or NCCL contains: the name of a source file in gloo's
 * error messages, one of NCCL's variables. They are the only trace of a hidden copy in a stripped
 * object. Skips a library of which the object has a use already. */
static void find_texts(struct check_findings *findings, size_t index)
{
    static const char *const texts[CHECK_LIBRARY_COUNT] = {
        [CHECK_NCCL] = "NCCL_NET_SHARED_BUFFERS", [CHECK_GLOO] = "gloo/transport/tcp/pair.cc"};
    bool is_used[CHECK_LIBRARY_COUNT] = {false};
    for (size_t i = 0; i < findings->use_count; i++)
        is_used[findings->uses[i].library] |= findings->uses[i].object == index;
    for (enum check_library i = 0; i < CHECK_LIBRARY_COUNT; i++) {
        const struct check_use use = {.object = index,
                                      .symbol = texts[i],
                                      .shown = texts[i],
                                      .library = i,
                                      .kind = CHECK_HOLDS};
        if (texts[i] != NULL && !is_used[i] &&
            object_contains(&findings->closure.objects[index].object, texts[i]))
            findings->uses = tool_append(findings->uses, &findings->use_count, sizeof use, &use);
    }
}

/* Records a shared runtime of the address sanitizer, and the program's function that sets its
 * options. */
static void find_asan(struct check_findings *findings, size_t index)
{
    const struct closure_object *object = &findings->closure.objects[index];
    struct object_symbol symbol;
    size_t position = 0;
    if (tool_starts_with(basename(object->name), "libasan.so libclang_rt.asan"))
        findings->asan = object->name;
    while (index == 0 && !findings->has_asan_options &&
           object_next_symbol(&object->object, OBJECT_DYNAMIC, &position, &symbol))
        findings->has_asan_options =
            symbol.defined && strcmp(symbol.name, "__asan_default_options") == 0;
}

static void look_at_object(struct check_findings *findings, size_t index)
{
    bool internal = is_internal(&findings->closure.objects[index]);
    find_asan(findings, index);
    bool opens = find_symbols(findings, index, internal, OBJECT_DYNAMIC);
    if (internal)
        return;
    find_symbols(findings, index, internal, OBJECT_STATIC);
    if (object_is_stripped(&findings->closure.objects[index].object))
        find_texts(findings, index);
    if (opens)
        find_names(findings, index);
}

char *check_find(struct check_findings *findings, const char *name)
{
    char *front = launch_find_library();
    *findings = (struct check_findings){.front_path = front};
    if (!object_open(&findings->front, front))
        return tool_format("%s: %s", front, strerror(errno));
    if (findings->front.damage != NULL)
        return tool_format("%s: %s; build or install it again", front, findings->front.damage);
    char *problem = check_program_find(&findings->program, name);
    if (problem != NULL)
        return problem;
    if (!closure_open(&findings->closure, findings->program.path))
        return tool_format("%s: %s", findings->program.path, strerror(errno));
    for (size_t i = 0; i < findings->closure.count; i++)
        if (findings->closure.objects[i].object.damage == NULL)
            look_at_object(findings, i);
    return NULL;
}
