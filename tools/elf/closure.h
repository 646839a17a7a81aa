/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the objects that the GNU dynamic loader would load with a program, in its order, without
 * running anything.
 *
 * Libraries may have copies for particular processors (glibc-hwcaps). The plain copy is taken: all
 * define the same functions. Not thread-safe: see elf.h.
 */
#ifndef TOOL_ELF_CLOSURE_H
#define TOOL_ELF_CLOSURE_H

#include "tools/elf/elf.h"

/* The loader's cache, /etc/ld.so.cache. The caller owns the bytes. */
struct library_cache {
    const char *bytes;
    size_t size;
    size_t count;
};

/* Reads the header of a cache as glibc writes it since 2.2. If the bytes are none, returns false,
 * and the cache is empty. */
bool library_cache_open(struct library_cache *cache, const char *bytes, size_t size);

/* The next path of a library's name; *position is 0 at first. NULL if there is no other. Some of
 * the paths may be for other machines. */
const char *library_cache_next(const struct library_cache *cache, const char *name,
                               size_t *position);

/* One object of the closure. */
struct closure_object {
    struct object object;
    const char *path; /* where it was found, or NULL */
    const char *name; /* by which it was asked for: a DT_NEEDED name, or the program's path */
    size_t loader;    /* index of the object that needs it; the program's own is 0 */
    uint64_t device;  /* identify the file behind the path */
    uint64_t inode;
};

struct closure {
    struct closure_object *objects; /* the program first, then breadth first */
    size_t count;
    struct library_cache cache;
};

/* Opens the program (or library) at a path, which must outlive the closure, and, unless it is
 * damaged, all objects that it needs. Returns false with errno set if the program's file cannot be
 * read. A library that was not found is in the list with a NULL path, a damaged one with
 * object.damage. A library for another machine counts as not found, as it does for the loader. */
bool closure_open(struct closure *closure, const char *path);

#endif
