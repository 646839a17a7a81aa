/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the libraries that an object needs, in the order of ld.so(8), also in the loader's
 * cache. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "tools/elf/elf.h"
#include "tools/lib/tool.h"

/* The cache that ldconfig writes: a header, entries, and the strings that these point to. The
 * layout is that of glibc's sysdeps/generic/dl-cache.h; numbers are in the machine's byte order. */
#define CACHE_FILE "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

/* Up to glibc 2.31 ldconfig put a cache of an older kind before it: a header, and 12 bytes for each
 * entry. */
#define OLD_MAGIC "ld.so-1.7.0"
#define OLD_HEADER 16
#define OLD_ENTRY 12

struct cache_header {
    char magic[sizeof CACHE_MAGIC - 1];
    uint32_t count;
    uint32_t strings_size;
    uint8_t flags[4];
    uint32_t extension;
    uint32_t unused[3];
};

/* Offsets of strings begin at the header. */
struct cache_entry {
    int32_t flags;
    uint32_t name;
    uint32_t path;
    uint32_t system_version;
    uint64_t capabilities; /* 0: for every processor */
};

/* Where the header begins: at 0, or behind an older cache. */
static size_t find_header(const char *bytes, size_t size)
{
    uint32_t count = 0;
    if (size < OLD_HEADER || memcmp(bytes, OLD_MAGIC, sizeof OLD_MAGIC) != 0)
        return 0;
    memcpy(&count, bytes + OLD_HEADER - sizeof count, sizeof count);
    uint64_t end = OLD_HEADER + (uint64_t)OLD_ENTRY * count;
    uint64_t aligned = (end + 7) / 8 * 8;
    return aligned < size ? aligned : 0;
}

bool library_cache_open(struct library_cache *cache, const char *bytes, size_t size)
{
    struct cache_header header;
    size_t begin = find_header(bytes, size);
    *cache = (struct library_cache){0};
    if (size - begin < sizeof header)
        return false;
    memcpy(&header, bytes + begin, sizeof header);
    if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0)
        return false;
    size_t room = (size - begin - sizeof header) / sizeof(struct cache_entry);
    *cache = (struct library_cache){bytes + begin, size - begin,
                                    header.count < room ? header.count : room};
    return true;
}

const char *library_cache_next(const struct library_cache *cache, const char *name,
                               size_t *position)
{
    while (*position < cache->count) {
        struct cache_entry entry;
        memcpy(&entry, cache->bytes + sizeof(struct cache_header) + (*position)++ * sizeof entry,
               sizeof entry);
        const char *entry_name = object_string(cache->bytes, cache->size, entry.name);
        const char *path = object_string(cache->bytes, cache->size, entry.path);
        if (entry.capabilities == 0 && entry_name != NULL && path != NULL &&
            strcmp(entry_name, name) == 0)
            return path;
    }
    return NULL;
}

/* A search for a name that one object needs, and what it has found. */
struct search {
    const struct closure *closure;
    struct closure_object found; /* its name and loader are given */
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
    const char *path = object->path;
    if (object->object.interpreter != NULL)
        path = realpath(path, NULL);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash == NULL)
        return ".";
    return tool_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Replaces the tokens in the first `length` characters of a text. */
static const char *expand(const struct closure_object *object, const char *text, size_t length)
{
    const char *known = (const char *)getauxval(AT_PLATFORM); /* NOLINT: an address */
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
    struct stat status;
    if (stat(path, &status) != 0 || !object_open(&object->object, path))
        return false;
    object->path = path;
    object->device = status.st_dev;
    object->inode = status.st_ino;
    return true;
}

/* Takes the file at a path if there is one, and it is for the program's machine. */
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

/* Tries a list of folders, in which tokens mean those of object `owner`. */
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

/* Tries DT_RPATH of the object, of the object that needs it, and so on up to the program. The
 * loader ignores them all if the object has a DT_RUNPATH. */
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

/* Tries the paths in the loader's cache, but not those in folders of the list ":FOLDER:...:". */
static bool try_cache(struct search *search, const char *without)
{
    size_t position = 0;
    const char *path = NULL;
    while ((path = library_cache_next(&search->closure->cache, search->found.name, &position)) !=
           NULL) {
        const char *slash = strrchr(path, '/');
        if (*path == '/' &&
            strstr(without, tool_format(":%.*s:", (int)(slash - path), path)) == NULL &&
            try_path(search, path))
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
    struct search search = {closure, {.name = name, .loader = loader}};
    if (has_name(closure, name))
        return;
    if (find(&search) && has_file(closure, &search.found))
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
    size_t size = 0;
    const char *cache = tool_read_file(CACHE_FILE, &size);
    if (cache != NULL)
        library_cache_open(&closure->cache, cache, size);
    for (size_t i = 0; i < closure->count; i++) {
        size_t position = 0;
        const char *name = NULL;
        while (closure->objects[i].object.damage == NULL &&
               (name = object_next_needed(&closure->objects[i].object, &position)) != NULL)
            add_needed(closure, i, name);
    }
    return true;
}
