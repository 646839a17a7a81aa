/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict and the findings as text and as JSON. */
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

/* Names come from the files that are checked: damaged ones must not reach a terminal as they are.
 * The caller frees the copy. */
static char *printable(const char *text)
{
    char *copy = tool_copy(text);
    for (char *at = copy; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    return copy;
}

static const char *use_name(enum check_use_kind kind)
{
    static const char *const names[] = {"calls", "provides", "embeds", "binds", "hides"};
    return names[kind];
}

static const char *use_phrase(enum check_use_kind kind)
{
    static const char *const phrases[] = {
        [CHECK_CALLS] = "calls",
        [CHECK_PROVIDES] = "defines",
        [CHECK_EMBEDS] = "has its own copy, called through the loader:",
        [CHECK_BINDS] = "has its own copy, bound to its callers:",
        [CHECK_HIDES] = "has its own copy, hidden from the loader:",
    };
    return phrases[kind];
}

static const char *object_path(const struct closure_object *object)
{
    return object->path != NULL ? object->path : object->name;
}

/* The symbols of one kind in one object, "a, b, c"; NULL if it has none. The caller frees it. */
static char *list_symbols(const struct check_findings *findings, size_t object,
                          enum check_use_kind kind)
{
    char *list = NULL;
    for (size_t i = 0; i < findings->use_count; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->object != object || use->kind != kind)
            continue;
        char *longer =
            tool_format("%s%s%s", list != NULL ? list : "", list != NULL ? ", " : "", use->symbol);
        free(list);
        list = longer;
    }
    return list;
}

/* The Fortran spellings of an MPI library are many and tell nothing: its C functions will do. */
static char *list_provided(const struct check_findings *findings, size_t object)
{
    char *list = list_symbols(findings, object, CHECK_PROVIDES);
    if (list == NULL || strlen(list) < 100)
        return list;
    free(list);
    return tool_copy("the all-reduces, for others to call");
}

static void print_objects(const struct check_findings *findings)
{
    for (size_t i = 0; i < findings->closure.count; i++)
        for (enum check_use_kind kind = CHECK_CALLS; kind <= CHECK_HIDES; kind++) {
            char *list = kind == CHECK_PROVIDES ? list_provided(findings, i)
                                                : list_symbols(findings, i, kind);
            char *path = printable(object_path(&findings->closure.objects[i]));
            if (list != NULL)
                printf("  %s: %s %s\n", path, use_phrase(kind), list);
            free(path);
            free(list);
        }
}

static void print_missing(const struct closure *closure)
{
    for (size_t i = 1; i < closure->count; i++) {
        const struct closure_object *object = &closure->objects[i];
        if (object->path != NULL && object->object.damage == NULL)
            continue;
        char *name = printable(object->name);
        char *loader = printable(object_path(&closure->objects[object->loader]));
        printf("  %s, needed by %s: %s\n", name, loader,
               object->path == NULL ? "not found" : object->object.damage);
        free(name);
        free(loader);
    }
}

static void print_hints(const struct check_findings *findings)
{
    for (size_t i = 0; i < findings->hint_count; i++) {
        const struct check_hint *hint = &findings->hints[i];
        char *path = printable(object_path(&findings->closure.objects[hint->object]));
        printf("  %s: opens libraries at run time and names %s\n", path, hint->text);
        free(path);
    }
}

static void print_notes(const struct check_findings *findings)
{
    if (findings->copies)
        printf("  handles of the MPI library live in the program (copy relocations): no harm\n");
    if (findings->namespaces)
        printf("  something imports dlmopen: what runs in a namespace of its own is not caught\n");
}

/* The program's own verdict tells of the one library that most programs use. */
static void print_libraries(const struct check_result *result)
{
    for (size_t i = 0; i < CHECK_LIBRARY_COUNT; i++)
        if (result->libraries[i].reason == CHECK_NO_CALL)
            return;
    for (enum check_library library = 0; library < CHECK_LIBRARY_COUNT; library++) {
        const struct check_judgement *judgement = &result->libraries[library];
        char *explanation = printable(judgement->explanation);
        printf("  %s: %s (%s): %s\n", check_library_name(library),
               check_verdict_name(judgement->verdict), check_reason_name(judgement->reason),
               explanation);
        free(explanation);
    }
}

void check_print_text(const struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    const struct check_program *program = &findings->program;
    char *explanation = printable(result->program.explanation);
    char *remedy = printable(result->program.remedy);
    printf("%s: %s (%s)\n", name, check_verdict_name(result->program.verdict),
           check_reason_name(result->program.reason));
    printf("why: %s\nwhat to do: %s\n", explanation, remedy);
    for (size_t i = 0; i < program->scripts; i++)
        printf("  %s is a script for %s\n", program->script_paths[i],
               i + 1 < program->scripts ? program->script_paths[i + 1] : program->path);
    print_libraries(result);
    print_objects(findings);
    print_hints(findings);
    print_missing(&findings->closure);
    print_notes(findings);
    free(explanation);
    free(remedy);
}

/* Text of any bytes: JSON takes UTF-8 only, and a path may be something else. */
static json_t *text_json(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    char *copy = tool_copy(text);
    for (char *at = copy; *at != '\0'; at++)
        if (!isascii((unsigned char)*at))
            *at = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

static void set_verdict(json_t *object, const struct check_judgement *judgement)
{
    json_object_set_new(object, "verdict", json_string(check_verdict_name(judgement->verdict)));
    json_object_set_new(object, "reason", json_string(check_reason_name(judgement->reason)));
    json_object_set_new(object, "explanation", text_json(judgement->explanation));
    json_object_set_new(object, "remedy", text_json(judgement->remedy));
}

static json_t *library_json(const struct check_findings *findings,
                            const struct check_judgement *judgement)
{
    json_t *object = json_object();
    const struct closure_object *provider = NULL;
    if (judgement->provider != SIZE_MAX)
        provider = &findings->closure.objects[judgement->provider];
    set_verdict(object, judgement);
    json_object_set_new(object, "implementation",
                        text_json(judgement->abi != NULL ? judgement->abi->name : NULL));
    json_object_set_new(object, "name", text_json(provider != NULL ? provider->name : NULL));
    json_object_set_new(object, "path", text_json(provider != NULL ? provider->path : NULL));
    json_object_set_new(object, "engine", text_json(judgement->engine));
    return object;
}

static json_t *uses_json(const struct check_findings *findings, size_t object)
{
    json_t *uses = json_array();
    for (size_t i = 0; i < findings->use_count; i++) {
        const struct check_use *use = &findings->uses[i];
        if (use->object != object)
            continue;
        json_t *entry = json_object();
        json_object_set_new(entry, "symbol", text_json(use->symbol));
        json_object_set_new(entry, "use", json_string(use_name(use->kind)));
        json_array_append_new(uses, entry);
    }
    return uses;
}

static json_t *hints_json(const struct check_findings *findings, size_t object)
{
    json_t *hints = json_array();
    for (size_t i = 0; i < findings->hint_count; i++)
        if (findings->hints[i].object == object)
            json_array_append_new(hints, json_string(findings->hints[i].text));
    return hints;
}

static json_t *objects_json(const struct check_findings *findings)
{
    const struct closure *closure = &findings->closure;
    json_t *objects = json_array();
    for (size_t i = 0; i < closure->count; i++) {
        const struct closure_object *object = &closure->objects[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "name", text_json(object->name));
        json_object_set_new(entry, "path", text_json(object->path));
        json_object_set_new(entry, "soname", text_json(object->object.soname));
        json_object_set_new(entry, "needed_by",
                            i > 0 ? text_json(closure->objects[object->loader].name) : json_null());
        json_object_set_new(entry, "damage", text_json(object->object.damage));
        json_object_set_new(entry, "symbolic", json_boolean(object->object.symbolic));
        json_object_set_new(entry, "uses", uses_json(findings, i));
        json_object_set_new(entry, "names_at_run_time", hints_json(findings, i));
        json_array_append_new(objects, entry);
    }
    return objects;
}

void check_print_json(const struct check_result *result, const char *name)
{
    const struct check_findings *findings = &result->findings;
    json_t *root = json_object();
    json_t *scripts = json_array();
    json_t *libraries = json_object();
    json_object_set_new(root, "program", text_json(name));
    set_verdict(root, &result->program);
    for (size_t i = 0; i < findings->program.scripts; i++)
        json_array_append_new(scripts, text_json(findings->program.script_paths[i]));
    json_object_set_new(root, "scripts", scripts);
    json_object_set_new(root, "file", text_json(findings->program.path));
    for (enum check_library library = 0; library < CHECK_LIBRARY_COUNT; library++)
        json_object_set_new(libraries, check_library_name(library),
                            library_json(findings, &result->libraries[library]));
    json_object_set_new(root, "libraries", libraries);
    json_object_set_new(root, "copy_relocations", json_boolean(findings->copies));
    json_object_set_new(root, "imports_dlmopen", json_boolean(findings->namespaces));
    json_object_set_new(root, "objects", objects_json(findings));
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
}
