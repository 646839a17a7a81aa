/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that the GNU dynamic loader would load with a program, found without running
 * anything, in its order.
 *
 * Where the search has copies of one library for particular processors (glibc-hwcaps), the plain
 * copy stands for them: they define the same functions. Not thread-safe: see elf.h.
 */
#ifndef TOOL_ELF_CLOSURE_H
#define TOOL_ELF_CLOSURE_H

#include "tools/elf/elf.h"

/* An index of the loader's cache, /etc/ld.so.cache; the bytes stay the caller's. */
struct library_cache {
    const char *bytes;
    size_t size;
    size_t entries; /* offset of the first entry */
    size_t count;
};

/* Reads the cache's header; false if the bytes are no cache of the format that glibc writes since
 * 2.2 (then the cache is empty). */
bool library_cache_open(struct library_cache *cache, const char *bytes, size_t size);

/* The next path for a library's name: *position is 0 at first. NULL if there is no other. Paths for
 * other machines are among them. */
const char *library_cache_next(const struct library_cache *cache, const char *name,
                               size_t *position);

/* One object of the closure. */
struct closure_object {
    struct object object;
    char *path;      /* as the loader would open it; NULL if it was not found */
    char *name;      /* what asked for it: a DT_NEEDED name, or the program's path */
    size_t loader;   /* index of the object that needs it; its own for the program */
    uint64_t device; /* identify the file behind the path */
    uint64_t inode;
};

struct closure {
    struct closure_object *objects; /* the program first, then breadth first */
    size_t count;
    struct library_cache cache;
    char *cache_bytes;
    const char *library_path; /* LD_LIBRARY_PATH */
};

/* Opens the program (or library) at a path and, unless that is damaged, all it needs. Returns false
 * with errno set if the program's file cannot be read. Libraries that are not found, or of which no
 * copy is sound, stay in the list: path is NULL, or object.damage tells. A library that is not for
 * the program's machine counts as not found, as it does for the loader. */
bool closure_open(struct closure *closure, const char *path);

void closure_close(struct closure *closure);

#endif
