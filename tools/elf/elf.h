/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of an ELF file what the dynamic loader would read, without loading it: segments, the
 * dynamic table, symbols, and the relocations that name symbols. Section headers are not needed; if
 * they are there, the static symbol table is read, too.
 *
 * The bytes may be any: all offsets are checked, and `damage` tells what is wrong with a file. Only
 * one thread may use an object at a time. The tool ends if there is no memory.
 */
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
    OBJECT_DYNAMIC, /* the symbols that the loader binds */
    OBJECT_STATIC,  /* .symtab: all symbols, unless stripped */
    OBJECT_TABLE_COUNT
};

struct object {
    const char *damage;      /* what is wrong, or NULL; if set, only the header is */
    GElf_Ehdr header;        /* zeros if it cannot be read */
    const char *interpreter; /* PT_INTERP, or NULL */
    const char *soname;      /* NULL if there is none, as rpath and runpath are */
    const char *rpath;       /* also NULL if there is a runpath: then the loader ignores it */
    const char *runpath;
    bool symbolic;           /* DT_SYMBOLIC or DF_SYMBOLIC: its own definitions come first for it */
    bool pie;                /* DF_1_PIE */
    bool no_default_folders; /* DF_1_NODEFLIB */

    /* Private. */
    Elf *elf;
    unsigned char *image;
    size_t size;
    bool mapped;
    size_t header_count; /* program headers; all lie in the file unless there is damage */
    Elf_Data *dynamic;
    uint64_t tags[DT_NUM]; /* of the dynamic table: the last value of each tag, or 0 */
    struct object_table tables[OBJECT_TABLE_COUNT];
    unsigned char *relocated; /* for each dynamic symbol: bits of enum object_relocation */
};

enum object_relocation {
    OBJECT_RELOCATED = 1, /* the loader fills in its address somewhere */
    OBJECT_COPIED = 2     /* a copy relocation: the variable lives in the executable */
};

struct object_symbol {
    const char *name;
    bool defined;     /* in this object */
    bool preemptible; /* another object's definition can take its place */
    bool relocated;
    bool copied;
};

/* Maps and reads a file. Returns false, with errno set, if it cannot be read or is no regular file.
 * Otherwise the caller closes the object; its strings live until then. A file that is no ELF file,
 * or a damaged one, is an object with `damage`. */
bool object_open(struct object *object, const char *path);

/* Reads the bytes of a file in memory, which must outlive the object. */
void object_open_memory(struct object *object, void *image, size_t size);

void object_close(struct object *object);

/* Whether the file begins as an ELF file does. */
bool object_is_elf(const struct object *object);

/* Whether two objects are for the same machine. One whose header cannot be read may be for any. */
bool object_is_for(const struct object *one, const struct object *other);

/* Iterates over a table's named symbols: *position is 0 at first. False at the end. Only dynamic
 * symbols have `relocated` and `copied`. */
bool object_next_symbol(const struct object *object, enum object_table_kind kind, size_t *position,
                        struct object_symbol *symbol);

/* Iterates over the DT_NEEDED names; NULL at the end. */
const char *object_next_needed(const struct object *object, size_t *position);

/* Returns true if the file has no static symbols. */
bool object_is_stripped(const struct object *object);

/* Whether a text is in what the loader maps of the file, without the dynamic strings. */
bool object_contains(const struct object *object, const char *text);

/* One object of the closure. */
struct closure_object {
    struct object object;
    const char *path; /* where it was found, or NULL */
    const char *name; /* by which it was asked for: a DT_NEEDED name, or the program's path */
    size_t loader;    /* index of the object that needs it; the program's own is 0 */
    const char *file; /* behind all links of the path */
};

/* What the GNU dynamic loader would load with a program, in its order, found without running
 * any of it. Libraries may have copies for particular processors (glibc-hwcaps). The plain copy is
 * taken: all define the same functions. */
struct closure {
    struct closure_object *objects; /* the program first, then breadth first */
    size_t count;
    const char *cache; /* the loader's, as ldconfig lists it */
};

/* Opens the program (or library) at a path, which must outlive the closure, and, unless it is
 * damaged, all objects that it needs. Returns false with errno set if the program's file cannot be
 * read. A library that was not found is in the list with a NULL path, a damaged one with
 * object.damage. A library for another machine counts as not found, as it does for the loader. */
bool closure_open(struct closure *closure, const char *path);

#endif
