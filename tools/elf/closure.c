/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the libraries that an object needs, in the order of ld.so(8). */
#include "tools/elf/closure.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "tools/lib/tool.h"

#define CACHE_FILE "/etc/ld.so.cache"

/* A search for a name that one object needs, and what it has found. */
struct search {
    struct closure *closure;
    size_t loader;
    const char *name;
    struct closure_object found;
};

/* The folder of the system's libraries below / and /usr, which is also $LIB: lib64,
 * lib/x86_64-linux-gnu, ... The C library of this tool lies in it. */
static const char *system_folder(void)
{
    Dl_info info;
    char *path = NULL;
    if (dladdr((void *)gnu_get_libc_version, &info) && info.dli_fname != NULL)
        path = realpath(info.dli_fname, NULL);
    if (path == NULL)
        return "lib";
    *strrchr(path, '/') = '\0';
    if (strncmp(path, "/usr/", 5) == 0)
        return path + 5;
    return *path != '\0' ? path + 1 : "";
}

/* The folder that $ORIGIN means for an object. For a program it is the folder of the file behind
 * all symbolic links, for a library that of the path where it was found. */
static const char *origin(const struct closure_object *object)
{
    char *path =
        object->object.interpreter != NULL ? realpath(object->path, NULL) : tool_copy(object->path);
    char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash == NULL)
        return ".";
    slash[slash == path ? 1 : 0] = '\0';
    return path;
}

/* The value of the token at text, ORIGIN, LIB or PLATFORM, perhaps in braces; its length goes to
 * *length. NULL if there is none. */
static const char *token_value(const struct closure_object *object, const char *text,
                               size_t *length)
{
    static const char *const names[] = {"ORIGIN", "LIB", "PLATFORM"};
    bool braces = *text == '{';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size = strlen(names[i]);
        if (strncmp(text + braces, names[i], size) != 0 || (braces && text[1 + size] != '}'))
            continue;
        const char *platform = (const char *)getauxval(AT_PLATFORM); /* NOLINT: an address */
        *length = size + (braces ? 2 : 0);
        if (i == 0)
            return origin(object);
        return i == 1 ? system_folder() : platform != NULL ? platform : "";
    }
    return NULL;
}

/* Replaces $ORIGIN, $LIB and $PLATFORM, with or without braces. */
static const char *expand(const struct closure_object *object, const char *text, size_t length)
{
    const char *result = "";
    for (const char *end = text + length; text < end;) {
        const char *dollar = memchr(text, '$', (size_t)(end - text));
        size_t plain = (size_t)((dollar != NULL ? dollar : end) - text);
        size_t taken = 0;
        const char *value = dollar != NULL ? token_value(object, dollar + 1, &taken) : NULL;
        if (dollar != NULL && value == NULL) /* this dollar is part of a name */
            plain++;
        result = tool_format("%s%.*s%s", result, (int)plain, text, value != NULL ? value : "");
        text += plain + (value != NULL ? 1 + taken : 0);
    }
    return result;
}

/* Takes the file at a path if there is one, and it is for the program's machine. */
static bool try_path(struct search *search, const char *path)
{
    struct stat status;
    struct closure_object candidate = {0};
    if (stat(path, &status) != 0 || !object_open(&candidate.object, path))
        return false;
    const struct object *program = &search->closure->objects[0].object;
    if (!object_is_elf(&candidate.object) ||
        (candidate.object.elf_class != 0 && !object_is_for(&candidate.object, program))) {
        object_close(&candidate.object);
        return false;
    }
    candidate.path = tool_copy(path);
    candidate.device = status.st_dev;
    candidate.inode = status.st_ino;
    search->found = candidate;
    return true;
}

/* Tries a list of folders, in which tokens mean those of object `owner`. */
static bool try_list(struct search *search, const char *list, const char *separators, size_t owner)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, separators);
        const char *folder = expand(&search->closure->objects[owner], list, length);
        if (*folder == '\0')
            folder = "."; /* the current folder */
        if (try_path(search, tool_format("%s/%s", folder, search->name)))
            return true;
        list += length;
        list += *list != '\0';
    }
    return false;
}

/* Tries DT_RPATH of the object, of the object that needs it, and so on up to the program. The
 * loader ignores them all if the object has a DT_RUNPATH. */
static bool try_rpaths(struct search *search)
{
    const struct closure_object *objects = search->closure->objects;
    if (objects[search->loader].object.runpath != NULL)
        return false;
    for (size_t at = search->loader;; at = objects[at].loader) {
        if (try_list(search, objects[at].object.rpath, ":", at))
            return true;
        if (at == objects[at].loader)
            return false;
    }
}

static bool is_default_folder(const char *path, const char *system)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    const char *begin = strncmp(path, "/usr/", 5) == 0 ? path + 5 : path + 1;
    length -= (size_t)(begin - path);
    return (strlen(system) == length && strncmp(begin, system, length) == 0) ||
           (length == 3 && strncmp(begin, "lib", 3) == 0);
}

static bool try_cache(struct search *search, const char *system, bool no_default_folders)
{
    size_t position = 0;
    const char *path = NULL;
    while ((path = library_cache_next(&search->closure->cache, search->name, &position)) != NULL) {
        if (*path != '/' || (no_default_folders && is_default_folder(path, system)))
            continue;
        if (try_path(search, path))
            return true;
    }
    return false;
}

static bool find_by_name(struct search *search)
{
    const struct object *loader = &search->closure->objects[search->loader].object;
    if (try_rpaths(search) ||
        try_list(search, search->closure->library_path, ":;", search->loader) ||
        try_list(search, loader->runpath, ":", search->loader))
        return true;
    const char *system = system_folder();
    const char *folders = tool_format("/%s:/usr/%s:/lib:/usr/lib", system, system);
    return try_cache(search, system, loader->no_default_folders) ||
           (!loader->no_default_folders && try_list(search, folders, ":", search->loader));
}

static bool find(struct search *search)
{
    if (strchr(search->name, '/') == NULL)
        return find_by_name(search);
    const struct closure_object *loader = &search->closure->objects[search->loader];
    return try_path(search, expand(loader, search->name, strlen(search->name)));
}

/* Whether a name is loaded: an object was found by it, or has it as its DT_SONAME. */
static bool has_name(const struct closure *closure, const char *name)
{
    for (size_t i = 0; i < closure->count; i++) {
        const struct closure_object *object = &closure->objects[i];
        if (strcmp(object->name, name) == 0 ||
            (object->object.soname != NULL && strcmp(object->object.soname, name) == 0))
            return true;
    }
    return false;
}

static bool has_file(const struct closure *closure, const struct closure_object *candidate)
{
    for (size_t i = 0; i < closure->count; i++)
        if (closure->objects[i].path != NULL && closure->objects[i].inode == candidate->inode &&
            closure->objects[i].device == candidate->device)
            return true;
    return false;
}

static void add_needed(struct closure *closure, size_t loader, const char *name)
{
    struct search search = {.closure = closure, .loader = loader, .name = name};
    if (has_name(closure, name))
        return;
    if (find(&search) && has_file(closure, &search.found)) {
        object_close(&search.found.object);
        return;
    }
    search.found.name = tool_copy(name);
    search.found.loader = loader;
    closure->objects =
        tool_append(closure->objects, &closure->count, sizeof search.found, &search.found);
}

bool closure_open(struct closure *closure, const char *path)
{
    struct stat status;
    struct closure_object program = {0};
    *closure = (struct closure){.library_path = getenv("LD_LIBRARY_PATH")};
    if (stat(path, &status) != 0 || !object_open(&program.object, path))
        return false;
    program.path = tool_copy(path);
    program.name = tool_copy(path);
    program.device = status.st_dev;
    program.inode = status.st_ino;
    closure->objects = tool_append(NULL, &closure->count, sizeof program, &program);
    size_t size = 0;
    closure->cache_bytes = tool_read_file(CACHE_FILE, &size);
    if (closure->cache_bytes != NULL)
        library_cache_open(&closure->cache, closure->cache_bytes, size);
    for (size_t i = 0; i < closure->count; i++) {
        size_t position = 0;
        const char *name = NULL;
        while (closure->objects[i].object.damage == NULL &&
               (name = object_next_needed(&closure->objects[i].object, &position)) != NULL)
            add_needed(closure, i, name);
    }
    return true;
}
