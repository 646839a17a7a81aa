/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/lib/tool.h"

bool object_is_elf(const struct object *object)
{
    return object->size >= SELFMAG && memcmp(object->image, ELFMAG, SELFMAG) == 0;
}

bool object_is_for(const struct object *one, const struct object *other)
{
    const GElf_Ehdr *a = &one->header, *b = &other->header;
    return a->e_ident[EI_CLASS] == ELFCLASSNONE ||
           (a->e_ident[EI_CLASS] == b->e_ident[EI_CLASS] &&
            a->e_ident[EI_DATA] == b->e_ident[EI_DATA] && a->e_machine == b->e_machine);
}

static void read_program_header(struct object *object, const GElf_Phdr *header)
{
    const uint64_t offset = header->p_offset, size = header->p_filesz;
    if (header->p_type != PT_LOAD && header->p_type != PT_INTERP && header->p_type != PT_DYNAMIC)
        return;
    if (offset > object->size || size > object->size - offset) {
        object->damage = "it is cut off: a segment ends behind the end of the file";
    } else if (header->p_type == PT_INTERP) {
        object->interpreter = (const char *)object->image + offset;
        if (memchr(object->interpreter, '\0', size) == NULL)
            object->damage = "the name of its loader (PT_INTERP) has no end";
    } else if (header->p_type == PT_DYNAMIC && size > 0) {
        object->dynamic = elf_getdata_rawchunk(object->elf, (int64_t)offset, size, ELF_T_DYN);
        if (object->dynamic == NULL)
            object->damage = "its dynamic table (PT_DYNAMIC) cannot be read";
    }
}

static void read_segments(struct object *object)
{
    if (elf_getphdrnum(object->elf, &object->header_count) != 0 || object->header_count == 0)
        object->damage = "it has no program headers that can be read";
    for (size_t i = 0; i < object->header_count && object->damage == NULL; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(object->elf, (int)i, &header) == NULL)
            object->damage = "its program headers are cut off";
        else
            read_program_header(object, &header);
    }
}

/* Iterates over the segments that are mapped; *position is 0 at first. Returns false at the end. */
static bool next_segment(const struct object *object, size_t *position, GElf_Phdr *segment)
{
    while (*position < object->header_count)
        if (gelf_getphdr(object->elf, (int)(*position)++, segment) != NULL &&
            segment->p_type == PT_LOAD)
            return true;
    return false;
}

/* Finds an address in the file: its offset, and the number of bytes (at least 1) from there to the
 * end of the segment. Returns false if it is not in the file. */
static bool find_address(const struct object *object, uint64_t address, uint64_t *offset,
                         uint64_t *room)
{
    GElf_Phdr segment;
    for (size_t i = 0; next_segment(object, &i, &segment);) {
        if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
            continue;
        *offset = segment.p_offset + (address - segment.p_vaddr);
        *room = segment.p_filesz - (address - segment.p_vaddr);
        return true;
    }
    return false;
}

/* Returns the string at an offset of a string table; NULL if none ends within the table. */
static const char *string_at(const struct object *object, enum object_table_kind kind,
                             uint64_t offset)
{
    const struct object_table *table = &object->tables[kind];
    const size_t size = table->strings_size;
    if (offset >= size || memchr(table->strings + offset, '\0', size - offset) == NULL)
        return NULL;
    return table->strings + offset;
}

/* Reads entry `index` of the dynamic table. Returns false at its end. */
static bool dynamic_entry(const struct object *object, size_t index, GElf_Dyn *entry)
{
    return object->dynamic != NULL && gelf_getdyn(object->dynamic, (int)index, entry) != NULL &&
           entry->d_tag != DT_NULL;
}

static void read_tags(struct object *object)
{
    GElf_Dyn entry;
    uint64_t flags_1 = 0, offset = 0, room = 0;
    bool named[DT_NUM] = {false};
    for (size_t i = 0; dynamic_entry(object, i, &entry); i++) {
        if (entry.d_tag > DT_NULL && entry.d_tag < DT_NUM) {
            object->tags[entry.d_tag] = entry.d_un.d_val;
            named[entry.d_tag] = true;
        } else if (entry.d_tag == DT_FLAGS_1) {
            flags_1 = entry.d_un.d_val;
        }
    }
    if (!find_address(object, object->tags[DT_STRTAB], &offset, &room)) {
        object->damage = "its dynamic strings (DT_STRTAB) lie outside the file";
        return;
    }
    object->tables[OBJECT_DYNAMIC] = (struct object_table){
        .strings = (const char *)object->image + offset,
        .strings_size = object->tags[DT_STRSZ] < room ? object->tags[DT_STRSZ] : room,
    };
    object->symbolic = named[DT_SYMBOLIC] || (object->tags[DT_FLAGS] & DF_SYMBOLIC) != 0;
    object->pie = (flags_1 & DF_1_PIE) != 0;
    object->no_default_folders = (flags_1 & DF_1_NODEFLIB) != 0;
    if (named[DT_SONAME])
        object->soname = string_at(object, OBJECT_DYNAMIC, object->tags[DT_SONAME]);
    if (named[DT_RUNPATH])
        object->runpath = string_at(object, OBJECT_DYNAMIC, object->tags[DT_RUNPATH]);
    else if (named[DT_RPATH])
        object->rpath = string_at(object, OBJECT_DYNAMIC, object->tags[DT_RPATH]);
}

const char *object_next_needed(const struct object *object, size_t *position)
{
    GElf_Dyn entry;
    while (dynamic_entry(object, *position, &entry)) {
        (*position)++;
        const char *name = NULL;
        if (entry.d_tag == DT_NEEDED)
            name = string_at(object, OBJECT_DYNAMIC, entry.d_un.d_val);
        if (name != NULL && *name != '\0')
            return name;
    }
    return NULL;
}

/* Returns the array of a type at an address, of at most `bytes` bytes; NULL if `bytes` is 0 or the
 * address is not in the file. */
static Elf_Data *read_array(const struct object *object, uint64_t address, uint64_t bytes,
                            Elf_Type type)
{
    uint64_t offset = 0, room = 0;
    if (bytes == 0 || !find_address(object, address, &offset, &room))
        return NULL;
    room = bytes < room ? bytes : room;
    room -= room % gelf_fsize(object->elf, type, 1, EV_CURRENT);
    return elf_getdata_rawchunk(object->elf, (int64_t)offset, room, type);
}

/* Returns the first section of a type, or NULL. */
static Elf_Scn *find_section(const struct object *object, GElf_Word type, GElf_Shdr *header)
{
    Elf_Scn *section = elf_nextscn(object->elf, NULL);
    while (section != NULL && (gelf_getshdr(section, header) == NULL || header->sh_type != type))
        section = elf_nextscn(object->elf, section);
    return section;
}

static bool is_copy(unsigned machine, uint64_t type)
{
    static const unsigned copies[][2] = {{EM_X86_64, R_X86_64_COPY},
                                         {EM_AARCH64, R_AARCH64_COPY},
                                         {EM_PPC64, R_PPC64_COPY},
                                         {EM_RISCV, R_RISCV_COPY}};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        if (copies[i][0] == machine && copies[i][1] == type)
            return true;
    return false;
}

/* Marks those of the first `limit` symbols that a relocation table names. Returns the number of
 * symbols up to the last of these. */
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
            is_copy(object->header.e_machine, GELF_R_TYPE(info)) ? OBJECT_COPIED : OBJECT_RELOCATED;
        count = symbol >= count ? symbol + 1 : count;
    }
    return count;
}

/* Reads the dynamic symbols. Takes their number from their section or, in a file without sections,
 * from the last symbol that a relocation names: the dynamic table does not contain it. */
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
    GElf_Shdr header = {0};
    const size_t listed = find_section(object, SHT_DYNSYM, &header) != NULL && header.sh_entsize > 0
                              ? header.sh_size / header.sh_entsize
                              : 0;
    object->relocated = tool_allocate(limit, 1);
    const size_t counts[] = {
        listed < limit ? listed : limit,
        mark_relocated(object, DT_RELA, tags[DT_RELASZ], true, limit),
        mark_relocated(object, DT_REL, tags[DT_RELSZ], false, limit),
        mark_relocated(object, DT_JMPREL, tags[DT_PLTRELSZ], tags[DT_PLTREL] == DT_RELA, limit)};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        table->count = counts[i] > table->count ? counts[i] : table->count;
}

/* Reads .symtab. If it is damaged, the file counts as stripped. */
static void read_static_symbols(struct object *object)
{
    struct object_table *table = &object->tables[OBJECT_STATIC];
    GElf_Shdr header;
    Elf_Scn *section = find_section(object, SHT_SYMTAB, &header);
    if (section == NULL)
        return;
    /* raw data: libelf would convert a section of another type into a copy */
    const Elf_Data *strings = elf_rawdata(elf_getscn(object->elf, header.sh_link), NULL);
    table->symbols = elf_getdata(section, NULL);
    if (strings == NULL || strings->d_buf == NULL || table->symbols == NULL)
        return;
    table->strings = strings->d_buf;
    table->strings_size = strings->d_size;
    table->count = table->symbols->d_size / gelf_fsize(object->elf, ELF_T_SYM, 1, EV_CURRENT);
}

void object_open_memory(struct object *object, void *image, size_t size)
{
    *object = (struct object){.image = image, .size = size};
    if (!object_is_elf(object)) {
        object->damage = "it is no ELF file";
        return;
    }
    elf_version(EV_CURRENT);
    object->elf = elf_memory(image, size);
    if (object->elf == NULL || elf_kind(object->elf) != ELF_K_ELF ||
        gelf_getehdr(object->elf, &object->header) == NULL) {
        object->damage = "its ELF header is cut off or damaged";
        return;
    }
    read_segments(object);
    if (object->damage == NULL && object->dynamic != NULL)
        read_tags(object);
    if (object->damage == NULL && object->dynamic != NULL)
        read_dynamic_symbols(object);
    if (object->damage == NULL)
        read_static_symbols(object);
}

bool object_open(struct object *object, const char *path)
{
    struct stat status;
    void *image = NULL; /* stays NULL for an empty file */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    errno = 0;
    if (fstat(file, &status) == 0 && !S_ISREG(status.st_mode))
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    if (errno == 0 && status.st_size > 0)
        image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    close(file);
    errno = error;
    if (error != 0)
        return false;
    object_open_memory(object, image, (size_t)status.st_size);
    object->mapped = image != NULL;
    return true;
}

void object_close(struct object *object)
{
    elf_end(object->elf);
    if (object->mapped)
        munmap(object->image, object->size);
    free(object->relocated);
    *object = (struct object){0};
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
        const char *name = string_at(object, kind, entry.st_name);
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

bool object_is_stripped(const struct object *object)
{
    return object->tables[OBJECT_STATIC].count == 0;
}

bool object_contains(const struct object *object, const char *text)
{
    const struct object_table *table = &object->tables[OBJECT_DYNAMIC];
    GElf_Phdr segment;
    for (size_t i = 0; next_segment(object, &i, &segment);) {
        const char *at = (const char *)object->image + segment.p_offset;
        const char *end = at + segment.p_filesz;
        for (; (at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL; at++)
            if (table->strings == NULL || at < table->strings ||
                at >= table->strings + table->strings_size)
                return true;
    }
    return false;
}
