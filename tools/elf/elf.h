/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the dynamic loader would read of an ELF file, without loading it: segments, the
 * dynamic table, symbols and the relocations that name them. Section headers are not needed; where
 * they are there, the static symbol table is read too.
 *
 * Any bytes may be given: what is damaged is said in `damage`, and all offsets are checked against
 * the file. Objects are independent of each other; one is used by one thread at a time. Out of
 * memory ends the tool.
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
    OBJECT_DYNAMIC, /* what takes part in the loader's binding */
    OBJECT_STATIC,  /* .symtab: all symbols, unless stripped */
    OBJECT_TABLE_COUNT
};

struct object {
    const char *damage; /* NULL, or what is wrong with the file: only class to entry hold then */
    unsigned elf_class; /* ELFCLASS64, ... */
    unsigned byte_order;
    unsigned machine; /* EM_X86_64, ... */
    unsigned type;    /* ET_EXEC, ET_DYN, ... */
    uint64_t entry;
    const char *interpreter; /* PT_INTERP, or NULL */
    const char *soname;      /* these three are NULL if there is none */
    const char *rpath;       /* NULL too if there is a runpath: the loader ignores it then */
    const char *runpath;
    bool symbolic;           /* DT_SYMBOLIC or DF_SYMBOLIC: it binds to its own definitions first */
    bool pie;                /* DF_1_PIE */
    bool no_default_folders; /* DF_1_NODEFLIB */

    /* Private. */
    Elf *elf;
    unsigned char *image;
    size_t size;
    bool mapped;
    size_t header_count; /* program headers; all lie in the file unless there is damage */
    Elf_Data *dynamic;
    uint64_t tags[DT_NUM]; /* values of the dynamic table, the last of each tag; 0 if missing */
    uint64_t gnu_hash;
    struct object_table tables[OBJECT_TABLE_COUNT];
    unsigned char *relocated; /* by index of dynamic symbol: enum object_relocation, or-ed */
};

enum object_relocation {
    OBJECT_RELOCATED = 1, /* reached through a place that the loader fills in */
    OBJECT_COPIED = 2     /* a copy relocation: the variable lives in the executable */
};

struct object_symbol {
    const char *name;
    bool defined;     /* here, not wanted from elsewhere */
    bool preemptible; /* another object's definition can take its place */
    bool relocated;
    bool copied;
};

/* Maps and reads a file. Returns false, with errno set, if it cannot be read or is no regular file;
 * a file that is no ELF, or a damaged one, is read with `damage` set. Close it in any case but
 * false. The strings in *object live until then. */
bool object_open(struct object *object, const char *path);

/* The same on bytes in memory, which must outlive the object. */
void object_open_memory(struct object *object, void *image, size_t size);

void object_close(struct object *object);

/* Whether the file begins like an ELF file, damaged or not. */
bool object_is_elf(const struct object *object);

/* Whether two objects are for the same machine. */
bool object_is_for(const struct object *one, const struct object *other);

/* Iterates over a table's named symbols: *position is 0 at first. False at the end. Only dynamic
 * symbols have `relocated` and `copied`. */
bool object_next_symbol(const struct object *object, enum object_table_kind kind, size_t *position,
                        struct object_symbol *symbol);

/* Iterates over the DT_NEEDED names; NULL at the end. */
const char *object_next_needed(const struct object *object, size_t *position);

/* Whether what the loader maps of the file, its dynamic strings apart, contains a text. */
bool object_contains(const struct object *object, const char *text);

/* The same in any place of the file. */
bool object_mentions(const struct object *object, const char *text);

/* For elf.c and symbols.c only. */

/* Iterates over the segments that the loader maps: *position is 0 at first. False at the end. */
bool object_next_segment(const struct object *object, size_t *position, GElf_Phdr *segment);

/* Finds the bytes at an address: their offset in the file and how many follow it in the segment
 * (at least 1). False if the file has none. */
bool object_find(const struct object *object, uint64_t address, uint64_t *offset, uint64_t *room);

/* Reads both symbol tables and the relocations; sets `damage` if that cannot be done. */
void object_read_symbols(struct object *object);

#endif
