/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from an ELF file what the dynamic linker would read, without loading it: segments, the
 * dynamic table, symbols, and relocations that name symbols. Without section headers, the static
 * symbols are missing, and the dynamic ones after the last that a relocation names.
 *
 *     struct object object;
 *     if (object_open(&object, path)) {
 *         ... object_next_symbol(), object_next_needed() ...
 *         object_close(&object);
 *     }
 *
 * A file may contain anything: all offsets are checked, and `damage` says what is wrong. One thread
 * at a time may use an object. The tool ends if there is no memory. */
#ifndef TOOL_ELF_H
#define TOOL_ELF_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_table {
    Elf_Data *symbols;
    size_t count;
    const char *strings;
    size_t strings_size;
};

enum object_table_kind {
    OBJECT_DYNAMIC, /* symbols that the dynamic linker binds */
    OBJECT_STATIC,  /* .symtab: all symbols, unless stripped */
    OBJECT_TABLE_COUNT
};

struct object {
    const char *damage;      /* error text, or NULL; if set, only the header is valid */
    GElf_Ehdr header;        /* zeros if it cannot be read */
    const char *interpreter; /* PT_INTERP, or NULL */
    const char *soname;      /* NULL if there is none; likewise rpath and runpath */
    const char *rpath;       /* also NULL if there is a runpath, which hides it */
    const char *runpath;
    bool symbolic;           /* DT_SYMBOLIC or DF_SYMBOLIC: it prefers its own definitions */
    bool pie;                /* DF_1_PIE */
    bool no_default_folders; /* DF_1_NODEFLIB */

    /* Private. */
    Elf *elf;
    unsigned char *image;
    size_t size;
    bool mapped;
    size_t header_count; /* number of program headers */
    Elf_Data *dynamic;
    uint64_t tags[DT_NUM]; /* dynamic table: last value of each tag, or 0 */
    struct object_table tables[OBJECT_TABLE_COUNT];
    unsigned char *relocated; /* bits of enum object_relocation for each dynamic symbol */
};

enum object_relocation {
    OBJECT_RELOCATED = 1, /* the loader stores the symbol's address somewhere */
    OBJECT_COPIED = 2     /* copy relocation: the variable is in the executable */
};

struct object_symbol {
    const char *name;
    bool defined;     /* this object defines the symbol */
    bool preemptible; /* in a library that is not symbolic, another's definition can replace it */
    bool relocated;
    bool copied;
};

/* Maps and reads a file. Returns false, with errno set, if it cannot be read or is no regular file.
 * Otherwise the caller closes the object; its strings live until then. A damaged file, or one that
 * is not ELF, is an object with `damage`. */
bool object_open(struct object *object, const char *path);

/* Reads a file's bytes in memory, which must outlive the object. */
void object_open_memory(struct object *object, void *image, size_t size);

void object_close(struct object *object);

/* Returns true if the file begins as an ELF file does. */
bool object_is_elf(const struct object *object);

/* Returns true if two objects are for the same machine, or if the header of `one` cannot be read.
 */
bool object_is_for(const struct object *one, const struct object *other);

/* Iterates over a table's named symbols; *position is 0 at first. Returns false at the end. Only
 * dynamic symbols have `relocated` and `copied`. */
bool object_next_symbol(const struct object *object, enum object_table_kind kind, size_t *position,
                        struct object_symbol *symbol);

/* Iterates over the DT_NEEDED names. Returns NULL at the end. */
const char *object_next_needed(const struct object *object, size_t *position);

/* Returns true if the file has no static symbols. */
bool object_is_stripped(const struct object *object);

/* Returns true if the mapped part of the file contains a text, outside the dynamic strings. */
bool object_contains(const struct object *object, const char *text);

/* One object of the closure. */
struct closure_object {
    struct object object;
    const char *path; /* where it was found, or NULL */
    const char *name; /* name that was searched for: a DT_NEEDED name, or the program's path */
    size_t loader;    /* index of the object that needs it; 0 for the program */
    const char *file; /* path after all links; NULL if it was not found */
};

/* A program and the libraries that the GNU dynamic linker would load for its DT_NEEDED names and
 * theirs (not for LD_PRELOAD), in the linker's order, found without running the program. Libraries
 * may have copies for particular processors (glibc-hwcaps): the plain copy is used, because all
 * define the same functions. */
struct closure {
    struct closure_object *objects; /* the program first, then breadth first */
    size_t count;
    const char *cache; /* the linker's cache, as ldconfig prints it */
};

/* Opens the program (or library) at a path, which must outlive the closure, and, unless it is
 * damaged, all objects that it needs. Returns false, with errno set, if the program's file cannot
 * be read. A library that was not found is in the list with a NULL path, a damaged one with
 * object.damage. A library for another machine counts as not found, as it does for the dynamic
 * linker. */
bool closure_open(struct closure *closure, const char *path);

#endif
