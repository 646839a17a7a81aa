/* SPDX-License-Identifier: Apache-2.0 */
/* compshim check: determines whether the shim can catch a program's all-reduces, without running
 * it; prints the verdict and the findings as text or as JSON. */
#include <string.h>

#include "tools/check/check.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

static bool as_json;

static const struct tool_option options[] = {
    {"json", 0, TOOL_FLAG, &as_json, NULL, "print the result as JSON"},
    {0},
};

static const struct {
    const char *name;
    const char *phrase;
} kinds[] = {
    [CHECK_CALLS] = {"calls", "calls"},
    [CHECK_PROVIDES] = {"provides", "defines"},
    [CHECK_EMBEDS] = {"embeds", "has its own copy, called through the loader:"},
    [CHECK_BINDS] = {"binds", "has its own copy, bound to its callers:"},
    [CHECK_HIDES] = {"hides", "has its own copy, hidden from the loader:"},
    [CHECK_FETCHES] = {"fetches", "fetches at run time:"},
    [CHECK_HOLDS] = {"holds", "has its own copy, without names, for it has the text"},
};

/* Returns a copy without control characters, which names in damaged files may contain. */
static const char *printable(const char *text)
{
    return tool_printable(tool_copy(text));
}

static const char *object_path(const struct check_findings *findings, size_t index)
{
    const struct closure_object *object = &findings->closure.objects[index];
    return printable(object->path != NULL ? object->path : object->name);
}

/* Returns the symbols of one kind in one object, "a, b, c"; NULL if there are none. */
static const char *list_symbols(const struct check_findings *findings, size_t object,
                                enum check_use_kind kind)
{
    const char *list = NULL;
    for (size_t i = 0; i < findings->use_count; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->object == object && use->kind == kind)
            list = list != NULL ? tool_format("%s, %s", list, use->shown) : use->shown;
    }
    /* Replaces the long list of an MPI library, which defines each function in many Fortran
     * spellings. */
    if (kind == CHECK_PROVIDES && list != NULL && strlen(list) >= 100)
        list = "the all-reduces, for others to call";
    return list;
}

static void print_objects(const struct check_findings *findings)
{
    for (size_t i = 0; i < findings->closure.count; i++)
        for (enum check_use_kind kind = CHECK_CALLS; kind <= CHECK_HOLDS; kind++) {
            const char *list = list_symbols(findings, i, kind);
            if (list != NULL)
                tool_print(stdout, 4, "  %s: %s %s\n", object_path(findings, i), kinds[kind].phrase,
                           list);
        }
}

/* Prints the other findings: libraries opened at run time, missing or damaged ones, and what
 * affects the preload. */
static void print_notes(const struct check_findings *findings)
{
    for (size_t i = 0; i < findings->use_count; i++)
        if (findings->uses[i].kind == CHECK_NAMES)
            tool_print(stdout, 4, "  %s: opens libraries at run time and names %s\n",
                       object_path(findings, findings->uses[i].object), findings->uses[i].symbol);
    for (size_t i = 1; i < findings->closure.count; i++) {
        const struct closure_object *object = &findings->closure.objects[i];
        if (object->path == NULL || object->object.damage != NULL)
            tool_print(stdout, 4, "  %s, needed by %s: %s\n", printable(object->name),
                       object_path(findings, object->loader),
                       object->path == NULL ? "not found" : object->object.damage);
    }
    if (findings->copies)
        tool_print(
            stdout, 4,
            "  handles of the MPI library live in the program (copy relocations): harmless\n");
    if (findings->namespaces)
        tool_print(stdout, 4, "  imports dlmopen: calls in a separate namespace are not caught\n");
    if (findings->asan != NULL && !findings->has_asan_options)
        tool_print(stdout, 4,
                   "  built with the address sanitizer (%s): starts with the preload as without\n",
                   findings->asan);
    else if (findings->asan != NULL)
        tool_print(
            stdout, 4,
            "  built with the address sanitizer, and has __asan_default_options: start it by "
            "compshim run, or with LD_PRELOAD=%s:%s for it alone\n",
            findings->asan, findings->front_path);
}

/* Prints the verdict on each library that the program calls, copies or may open, if there are
 * several. For one library the program's verdict is enough. */
static void print_libraries(const struct check_result *result)
{
    size_t called = 0;
    for (size_t i = 0; i < CHECK_LIBRARY_COUNT; i++)
        called += result->libraries[i].reason != CHECK_NO_CALL;
    for (size_t i = 0; i < CHECK_LIBRARY_COUNT && called > 1; i++) {
        const struct check_judgement *judgement = &result->libraries[i];
        if (judgement->reason != CHECK_NO_CALL)
            tool_print(stdout, 4, "  %s: %s (%s): %s\n", check_libraries[i].key,
                       check_verdict_name(judgement->reason), check_reasons[judgement->reason].name,
                       printable(judgement->explanation));
    }
}

static void print_text(const struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    const struct check_program *program = &findings->program;
    tool_print(stdout, 4, "%s: %s (%s)\n", name, check_verdict_name(result->program.reason),
               check_reasons[result->program.reason].name);
    tool_print(stdout, 4, "why: %s\nwhat to do: %s\n", printable(result->program.explanation),
               printable(result->program.remedy));
    for (size_t i = 0; i < program->scripts; i++)
        tool_print(stdout, 4, "  %s is a script for %s\n", program->script_paths[i],
                   i + 1 < program->scripts ? program->script_paths[i + 1] : program->path);
    print_libraries(result);
    print_objects(findings);
    print_notes(findings);
}

static json_t *verdict_json(const struct check_judgement *judgement)
{
    return json_pack("{ss ss so so}", "verdict", check_verdict_name(judgement->reason), "reason",
                     check_reasons[judgement->reason].name, "explanation",
                     tool_json_text(judgement->explanation), "remedy",
                     tool_json_text(judgement->remedy));
}

static json_t *library_json(const struct check_findings *findings,
                            const struct check_judgement *judgement)
{
    static const struct closure_object none;
    const struct closure_object *provider =
        judgement->provider != SIZE_MAX ? &findings->closure.objects[judgement->provider] : &none;
    json_t *object = verdict_json(judgement);
    json_object_update_new(
        object,
        json_pack("{so so so so}", "implementation",
                  tool_json_text(judgement->abi != NULL ? judgement->abi->name : NULL), "name",
                  tool_json_text(provider->name), "path", tool_json_text(provider->path), "engine",
                  tool_json_text(judgement->engine)));
    return object;
}

static json_t *object_json(const struct check_findings *findings, size_t index)
{
    const struct closure *closure = &findings->closure;
    const struct closure_object *object = &closure->objects[index];
    json_t *uses = json_array(), *names = json_array();
    for (size_t i = 0; i < findings->use_count; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->object == index && use->kind == CHECK_NAMES)
            json_array_append_new(names, json_string(use->symbol));
        else if (use->object == index)
            json_array_append_new(uses, json_pack("{so ss}", "symbol", tool_json_text(use->symbol),
                                                  "use", kinds[use->kind].name));
    }
    return json_pack("{so so so so so sb so so}", "name", tool_json_text(object->name), "path",
                     tool_json_text(object->path), "soname", tool_json_text(object->object.soname),
                     "needed_by",
                     tool_json_text(index > 0 ? closure->objects[object->loader].name : NULL),
                     "damage", tool_json_text(object->object.damage), "symbolic",
                     object->object.symbolic, "uses", uses, "names_at_run_time", names);
}

static void print_json(const struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    json_t *root = json_pack("{so}", "program", tool_json_text(name));
    json_t *scripts = json_array(), *libraries = json_object(), *objects = json_array();
    for (size_t i = 0; i < findings->program.scripts; i++)
        json_array_append_new(scripts, tool_json_text(findings->program.script_paths[i]));
    for (enum check_library library = 0; library < CHECK_LIBRARY_COUNT; library++)
        json_object_set_new(libraries, check_libraries[library].key,
                            library_json(findings, &result->libraries[library]));
    for (size_t i = 0; i < findings->closure.count; i++)
        json_array_append_new(objects, object_json(findings, i));
    json_object_update_new(root, verdict_json(&result->program));
    json_object_update_new(root,
                           json_pack("{so so so sb sb so so}", "scripts", scripts, "file",
                                     tool_json_text(findings->program.path), "libraries", libraries,
                                     "copy_relocations", findings->copies, "imports_dlmopen",
                                     findings->namespaces, "address_sanitizer",
                                     tool_json_text(findings->asan), "objects", objects));
    tool_json_print(root);
}

static int run_check(char **words)
{
    struct check_result result = {0};
    if (words[0] == NULL)
        tool_misuse("no program to check");
    if (words[1] != NULL)
        tool_misuse("unexpected argument '%s': check takes a program, without its launcher",
                    words[1]);
    char *problem = check_find(&result.findings, words[0]);
    if (problem != NULL)
        errx(TOOL_SYSTEM, "%s", problem);
    check_judge(&result, words[0]);
    if (as_json)
        print_json(&result, words[0]);
    else
        print_text(&result, words[0]);
    return tool_finish(result.program.reason == CHECK_INTERPOSED ? TOOL_GOOD : TOOL_NOT_SO);
}

bool check_warn(char **words, bool quiet, bool verbose)
{
    struct check_result result = {0};
    const char *name = *check_behind_launchers(words);
    if (name == NULL || check_find(&result.findings, name) != NULL)
        return false;
    check_judge(&result, name);
    if (!quiet && check_reasons[result.program.reason].is_warned_of &&
        check_calling(result.findings.program.path) == CHECK_PROGRAM)
        warnx("%s: its all-reduces are not caught: %s (see 'compshim check %s')", name,
              result.program.explanation, name);
    else if (!quiet && verbose)
        warnx("%s: %s: %s", name, check_verdict_name(result.program.reason),
              result.program.explanation);
    return result.findings.asan != NULL && result.findings.has_asan_options;
}

const struct tool_command tool_check = {
    .name = "check",
    .summary = "find out whether a program's all-reduces can be caught, and why",
    .usage = "[--json] PROGRAM",
    .details = "Runs nothing. PROGRAM is a name in PATH, a path, a script or a shared library; "
               "all libraries that it needs are examined, too. The answer is 'caught', 'not "
               "caught' or 'maybe', with a reason and what to do.\n\nexit status: 0 caught, 1 not "
               "caught or maybe, 2 wrong use, 3 a system error\n\n  compshim check ./train\n",
    .advice = "; check takes a program, without its launcher",
    .options = options,
    .run = run_check,
};
