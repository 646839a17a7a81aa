/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the libraries that an object needs, in the order of ld.so(8), including the linker's
 * cache. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "tools/elf/elf.h"
#include "tools/lib/tool.h"

/* Returns the contents of the dynamic linker's cache: a line for each library; "" if ldconfig
 * cannot print it. */
static const char *list_cache(void)
{
    char *text = NULL;
    size_t room = 0;
    FILE *listing = popen("/sbin/ldconfig -p 2>/dev/null", "re");
    const bool is_read = listing != NULL && getdelim(&text, &room, '\0', listing) > 0;
    if (listing != NULL)
        pclose(listing);
    return is_read ? text : "";
}

/* A search for a name that one object needs, and its result. */
struct search {
    const struct closure *closure;
    struct closure_object found; /* result; the caller sets its name and loader */
};

/* Returns the folder of the system's libraries below / and /usr, which is also $LIB: lib64,
 * lib/x86_64-linux-gnu, ... It contains the C library of this tool. */
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

/* Returns the value of $ORIGIN for an object: for a program the folder of its file after all
 * symbolic links, for a library that of the path where it was found. */
static const char *origin(const struct closure_object *object)
{
    const char *path = object->path;
    if (object->object.interpreter != NULL)
        path = realpath(path, NULL);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash == NULL)
        return ".";
    return tool_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Returns the first `length` characters of a text, with the tokens $ORIGIN, $LIB and $PLATFORM
 * replaced by their values for an object. */
static const char *expand(const struct closure_object *object, const char *text, size_t length)
{
    const char *known = (const char *)getauxval(AT_PLATFORM); /* NOLINT: the value is an address */
    const char *platform = known != NULL ? known : "";
    const char *const tokens[][2] = {
        {"$ORIGIN", origin(object)}, {"${ORIGIN}", origin(object)}, {"$LIB", system_folder()},
        {"${LIB}", system_folder()}, {"$PLATFORM", platform},       {"${PLATFORM}", platform},
    };
    const size_t count = sizeof tokens / sizeof *tokens;
    const char *result = "";
    for (size_t part; length > 0; text += part, length -= part) {
        size_t i = 0;
        while (i < count && !tool_starts_with(text, tokens[i][0]))
            i++;
        part = i < count ? strlen(tokens[i][0]) : 1 + strcspn(text + 1, "$");
        part = part < length ? part : length;
        result = i < count ? tool_format("%s%s", result, tokens[i][1])
                           : tool_format("%s%.*s", result, (int)part, text);
    }
    return result;
}

static bool open_object(struct closure_object *object, const char *path)
{
    if (!object_open(&object->object, path))
        return false;
    object->path = path;
    object->file = realpath(path, NULL);
    return true;
}

/* Uses the file at a path if there is one, and it is for the program's machine. */
static bool try_path(struct search *search, const char *path)
{
    struct closure_object candidate = search->found;
    if (!open_object(&candidate, path))
        return false;
    if (!object_is_elf(&candidate.object) ||
        !object_is_for(&candidate.object, &search->closure->objects[0].object)) {
        object_close(&candidate.object);
        return false;
    }
    search->found = candidate;
    return true;
}

/* Tries a list of folders. $ORIGIN and other tokens in it have the values for object `owner`. */
static bool try_list(struct search *search, const char *list, const char *separators, size_t owner)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, separators);
        const char *folder = expand(&search->closure->objects[owner], list, length);
        if (*folder == '\0')
            folder = "."; /* the current folder */
        if (try_path(search, tool_format("%s/%s", folder, search->found.name)))
            return true;
        list += length;
        list += *list != '\0';
    }
    return false;
}

/* Tries DT_RPATH of the object that needs the library, of the object that needs this object, and so
 * on up to the program. The dynamic linker ignores all if the first object has a DT_RUNPATH. */
static bool try_rpaths(struct search *search)
{
    const struct closure_object *objects = search->closure->objects;
    if (objects[search->found.loader].object.runpath != NULL)
        return false;
    for (size_t at = search->found.loader;; at = objects[at].loader) {
        if (try_list(search, objects[at].object.rpath, ":", at))
            return true;
        if (at == objects[at].loader)
            return false;
    }
}

/* Tries the paths in the linker's cache, except those in folders of the list ":FOLDER:...:". A line
 * is "\tNAME (ABI[, hwcap: ...]) => PATH"; copies for particular processors (hwcap) are skipped. */
static bool try_cache(struct search *search, const char *without)
{
    const char *wanted = tool_format("\t%s (", search->found.name);
    for (const char *line = search->closure->cache; (line = strstr(line, wanted)) != NULL; line++) {
        const char *end = strchrnul(line, '\n'), *path = strstr(line, ") => ");
        if (path == NULL || path > end || memmem(line, (size_t)(path - line), "hwcap", 5) != NULL)
            continue;
        path = tool_format("%.*s", (int)(end - path) - 5, path + 5);
        const int folder = (int)(strrchr(path, '/') - path);
        if (strstr(without, tool_format(":%.*s:", folder, path)) == NULL && try_path(search, path))
            return true;
    }
    return false;
}

static bool find(struct search *search)
{
    const char *name = search->found.name;
    const size_t loader = search->found.loader;
    const struct closure_object *needing = &search->closure->objects[loader];
    if (strchr(name, '/') != NULL)
        return try_path(search, expand(needing, name, strlen(name)));
    if (try_rpaths(search) || try_list(search, getenv("LD_LIBRARY_PATH"), ":;", loader) ||
        try_list(search, needing->object.runpath, ":", loader))
        return true;
    const char *system = system_folder();
    const char *folders = tool_format("/%s:/usr/%s:/lib:/usr/lib", system, system);
    if (needing->object.no_default_folders)
        return try_cache(search, tool_format(":%s:", folders));
    return try_cache(search, "") || try_list(search, folders, ":", loader);
}

/* Returns true if the closure has an object that was searched for by `name` or has `name` as its
 * DT_SONAME, or an object with the path `file` after all links (NULL: not compared). */
static bool has_object(const struct closure *closure, const char *name, const char *file)
{
    for (size_t i = 0; i < closure->count; i++) {
        const struct closure_object *object = &closure->objects[i];
        if (strcmp(object->name, name) == 0 ||
            (object->object.soname != NULL && strcmp(object->object.soname, name) == 0) ||
            (object->file != NULL && file != NULL && strcmp(object->file, file) == 0))
            return true;
    }
    return false;
}

static void add_needed(struct closure *closure, size_t loader, const char *name)
{
    struct search search = {closure, {.name = name, .loader = loader}};
    if (has_object(closure, name, NULL))
        return;
    if (find(&search) && has_object(closure, "", search.found.file))
        object_close(&search.found.object);
    else
        closure->objects =
            tool_append(closure->objects, &closure->count, sizeof search.found, &search.found);
}

bool closure_open(struct closure *closure, const char *path)
{
    struct closure_object program = {.name = path};
    *closure = (struct closure){0};
    if (!open_object(&program, path))
        return false;
    closure->objects = tool_append(NULL, &closure->count, sizeof program, &program);
    closure->cache = list_cache();
    for (size_t i = 0; i < closure->count; i++) {
        size_t position = 0;
        const char *name = NULL;
        while (closure->objects[i].object.damage == NULL &&
               (name = object_next_needed(&closure->objects[i].object, &position)) != NULL)
            add_needed(closure, i, name);
    }
    return true;
}
