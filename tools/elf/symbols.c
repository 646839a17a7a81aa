/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the symbols of an ELF file and which of them the loader binds; finds texts in the file. */
#include <stdlib.h>
#include <string.h>

#include "tools/elf/elf.h"
#include "tools/lib/tool.h"

/* A 32-bit word of a hash table; 0 behind the end of the file. */
static uint32_t word_at(const struct object *object, uint64_t offset)
{
    uint32_t word = 0;
    if (offset > object->size || object->size - offset < sizeof word)
        return 0;
    memcpy(&word, object->image + offset, sizeof word);
    bool swapped = (object->byte_order == ELFDATA2MSB) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    return swapped ? __builtin_bswap32(word) : word;
}

/* The number of symbols by DT_GNU_HASH. The table has a header (buckets, first hashed symbol, bloom
 * words, shift), a bloom filter, buckets with the first symbol of each chain, and a word for each
 * hashed symbol, whose lowest bit is set at the end of a chain. So the last symbol is the end of
 * the chain that begins last. */
static size_t count_by_gnu_hash(const struct object *object, uint64_t offset, uint64_t room)
{
    uint64_t end = offset + room;
    uint64_t buckets = word_at(object, offset);
    uint64_t first = word_at(object, offset + 4);
    uint64_t bloom_word = object->elf_class == ELFCLASS64 ? 8 : 4;
    uint64_t bucket = offset + 16 + word_at(object, offset + 8) * bloom_word;
    uint64_t chains = bucket + 4 * buckets;
    uint64_t last = 0;
    for (; bucket < chains && bucket < end; bucket += 4)
        if (word_at(object, bucket) > last)
            last = word_at(object, bucket);
    if (last < first)
        return 0;
    uint64_t chain = chains + 4 * (last - first);
    for (; chain < end && (word_at(object, chain) & 1) == 0; chain += 4)
        last++;
    return last + 1;
}

static size_t count_by_hash(const struct object *object)
{
    uint64_t offset = 0;
    uint64_t room = 0;
    if (object->tags[DT_HASH] != 0 &&
        object_find(object, object->tags[DT_HASH], &offset, &room)) /* buckets, symbols, ... */
        return word_at(object, offset + 4);
    if (object->gnu_hash != 0 && object_find(object, object->gnu_hash, &offset, &room))
        return count_by_gnu_hash(object, offset, room);
    return 0;
}

static bool is_copy(unsigned machine, uint64_t type)
{
    switch (machine) {
    case EM_X86_64:
        return type == R_X86_64_COPY;
    case EM_AARCH64:
        return type == R_AARCH64_COPY;
    case EM_PPC64:
        return type == R_PPC64_COPY;
    case EM_RISCV:
        return type == R_RISCV_COPY;
    default:
        return false;
    }
}

/* The array of a type at an address, of at most `bytes` bytes. NULL if it is not in the file. */
static Elf_Data *read_array(struct object *object, uint64_t address, uint64_t bytes, Elf_Type type)
{
    uint64_t offset = 0, room = 0;
    if (bytes == 0 || !object_find(object, address, &offset, &room))
        return NULL;
    room = bytes < room ? bytes : room;
    room -= room % gelf_fsize(object->elf, type, 1, EV_CURRENT);
    return elf_getdata_rawchunk(object->elf, (int64_t)offset, room, type);
}

/* Marks the symbols, among the first `limit`, that a table of relocations names. Returns the number
 * of symbols up to the last of these. */
static size_t mark_relocated(struct object *object, int address, uint64_t bytes, bool addends,
                             size_t limit)
{
    Elf_Data *table =
        read_array(object, object->tags[address], bytes, addends ? ELF_T_RELA : ELF_T_REL);
    size_t count = 0;
    for (int i = 0; table != NULL; i++) {
        GElf_Rela with_addend;
        GElf_Rel without;
        if (addends ? gelf_getrela(table, i, &with_addend) == NULL
                    : gelf_getrel(table, i, &without) == NULL)
            break;
        const uint64_t info = addends ? with_addend.r_info : without.r_info;
        const uint64_t symbol = GELF_R_SYM(info);
        if (symbol >= limit)
            continue;
        object->relocated[symbol] |=
            is_copy(object->machine, GELF_R_TYPE(info)) ? OBJECT_COPIED : OBJECT_RELOCATED;
        count = symbol >= count ? symbol + 1 : count;
    }
    return count;
}

/* No entry of the dynamic table tells how many symbols there are. Those that are hashed are known
 * from the hash table; of others only those count that a relocation names. */
static void read_dynamic_symbols(struct object *object)
{
    struct object_table *table = &object->tables[OBJECT_DYNAMIC];
    const uint64_t *tags = object->tags;
    table->symbols = read_array(object, tags[DT_SYMTAB], UINT64_MAX, ELF_T_SYM);
    if (table->symbols == NULL) {
        object->damage = "its dynamic symbols (DT_SYMTAB) lie outside the file";
        return;
    }
    const size_t limit = table->symbols->d_size / gelf_fsize(object->elf, ELF_T_SYM, 1, EV_CURRENT);
    const size_t hashed = count_by_hash(object);
    object->relocated = tool_allocate(limit, 1);
    const size_t counts[] = {
        hashed < limit ? hashed : limit,
        mark_relocated(object, DT_RELA, tags[DT_RELASZ], true, limit),
        mark_relocated(object, DT_REL, tags[DT_RELSZ], false, limit),
        mark_relocated(object, DT_JMPREL, tags[DT_PLTRELSZ], tags[DT_PLTREL] == DT_RELA, limit)};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        table->count = counts[i] > table->count ? counts[i] : table->count;
}

/* Reads .symtab. If it is damaged, it counts as stripped. */
static void read_static_symbols(struct object *object)
{
    struct object_table *table = &object->tables[OBJECT_STATIC];
    GElf_Shdr header;
    Elf_Scn *section = elf_nextscn(object->elf, NULL);
    while (section != NULL &&
           (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_SYMTAB))
        section = elf_nextscn(object->elf, section);
    if (section == NULL)
        return;
    const Elf_Data *strings = elf_getdata(elf_getscn(object->elf, header.sh_link), NULL);
    table->symbols = elf_getdata(section, NULL);
    if (strings == NULL || strings->d_buf == NULL || table->symbols == NULL)
        return;
    table->strings = strings->d_buf;
    table->strings_size = strings->d_size;
    table->count = table->symbols->d_size / gelf_fsize(object->elf, ELF_T_SYM, 1, EV_CURRENT);
}

void object_read_symbols(struct object *object)
{
    if (object->dynamic != NULL)
        read_dynamic_symbols(object);
    read_static_symbols(object);
}

bool object_next_symbol(const struct object *object, enum object_table_kind kind, size_t *position,
                        struct object_symbol *symbol)
{
    const struct object_table *table = &object->tables[kind];
    while (*position < table->count) {
        GElf_Sym entry;
        const size_t index = (*position)++;
        if (gelf_getsym(table->symbols, (int)index, &entry) == NULL)
            return false;
        const char *name = object_string(table->strings, table->strings_size, entry.st_name);
        if (entry.st_name == 0 || name == NULL)
            continue;
        const unsigned relocated = kind == OBJECT_DYNAMIC ? object->relocated[index] : 0;
        *symbol = (struct object_symbol){
            .name = name,
            .defined = entry.st_shndx != SHN_UNDEF,
            .preemptible = GELF_ST_BIND(entry.st_info) != STB_LOCAL &&
                           GELF_ST_VISIBILITY(entry.st_other) == STV_DEFAULT,
            .relocated = (relocated & OBJECT_RELOCATED) != 0,
            .copied = (relocated & OBJECT_COPIED) != 0,
        };
        return true;
    }
    return false;
}

bool object_contains(const struct object *object, const char *text)
{
    const struct object_table *table = &object->tables[OBJECT_DYNAMIC];
    GElf_Phdr segment;
    for (size_t i = 0; object_next_segment(object, &i, &segment);) {
        const char *at = (const char *)object->image + segment.p_offset;
        const char *end = at + segment.p_filesz;
        for (; (at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL; at++)
            if (table->strings == NULL || at < table->strings ||
                at >= table->strings + table->strings_size)
                return true;
    }
    return false;
}
