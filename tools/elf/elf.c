/* SPDX-License-Identifier: Apache-2.0 */
/* Opens an ELF file, and reads its segments and its dynamic table. */
#include "tools/elf/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool object_is_elf(const struct object *object)
{
    return object->size >= SELFMAG && memcmp(object->image, ELFMAG, SELFMAG) == 0;
}

bool object_is_for(const struct object *one, const struct object *other)
{
    return one->elf_class == other->elf_class && one->byte_order == other->byte_order &&
           one->machine == other->machine;
}

static bool read_header(struct object *object)
{
    GElf_Ehdr header;
    if (elf_kind(object->elf) != ELF_K_ELF || gelf_getehdr(object->elf, &header) == NULL)
        return false;
    object->elf_class = header.e_ident[EI_CLASS];
    object->byte_order = header.e_ident[EI_DATA];
    object->machine = header.e_machine;
    object->type = header.e_type;
    object->entry = header.e_entry;
    return true;
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

bool object_next_segment(const struct object *object, size_t *position, GElf_Phdr *segment)
{
    while (*position < object->header_count)
        if (gelf_getphdr(object->elf, (int)(*position)++, segment) != NULL &&
            segment->p_type == PT_LOAD)
            return true;
    return false;
}

bool object_find(const struct object *object, uint64_t address, uint64_t *offset, uint64_t *room)
{
    GElf_Phdr segment;
    for (size_t i = 0; object_next_segment(object, &i, &segment);) {
        if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
            continue;
        *offset = segment.p_offset + (address - segment.p_vaddr);
        *room = segment.p_filesz - (address - segment.p_vaddr);
        return true;
    }
    return false;
}

const char *object_string(const char *strings, size_t size, uint64_t offset)
{
    if (offset >= size || memchr(strings + offset, '\0', size - offset) == NULL)
        return NULL;
    return strings + offset;
}

static const char *dynamic_string(const struct object *object, uint64_t offset)
{
    const struct object_table *table = &object->tables[OBJECT_DYNAMIC];
    return object_string(table->strings, table->strings_size, offset);
}

/* Reads the dynamic table's entry at an index. False at its end. */
static bool dynamic_entry(const struct object *object, size_t index, GElf_Dyn *entry)
{
    return object->dynamic != NULL && gelf_getdyn(object->dynamic, (int)index, entry) != NULL &&
           entry->d_tag != DT_NULL;
}

static void read_strings(struct object *object)
{
    struct object_table *table = &object->tables[OBJECT_DYNAMIC];
    uint64_t offset = 0, room = 0;
    if (!object_find(object, object->tags[DT_STRTAB], &offset, &room)) {
        object->damage = "its dynamic strings (DT_STRTAB) lie outside the file";
        return;
    }
    table->strings = (const char *)object->image + offset;
    table->strings_size = object->tags[DT_STRSZ] < room ? object->tags[DT_STRSZ] : room;
}

static void read_tags(struct object *object)
{
    GElf_Dyn entry;
    uint64_t flags_1 = 0;
    bool named[DT_NUM] = {false};
    for (size_t i = 0; dynamic_entry(object, i, &entry); i++) {
        if (entry.d_tag > DT_NULL && entry.d_tag < DT_NUM) {
            object->tags[entry.d_tag] = entry.d_un.d_val;
            named[entry.d_tag] = true;
        } else if (entry.d_tag == DT_GNU_HASH) {
            object->gnu_hash = entry.d_un.d_ptr;
        } else if (entry.d_tag == DT_FLAGS_1) {
            flags_1 = entry.d_un.d_val;
        }
    }
    read_strings(object);
    object->symbolic = named[DT_SYMBOLIC] || (object->tags[DT_FLAGS] & DF_SYMBOLIC) != 0;
    object->pie = (flags_1 & DF_1_PIE) != 0;
    object->no_default_folders = (flags_1 & DF_1_NODEFLIB) != 0;
    if (named[DT_SONAME])
        object->soname = dynamic_string(object, object->tags[DT_SONAME]);
    if (named[DT_RUNPATH])
        object->runpath = dynamic_string(object, object->tags[DT_RUNPATH]);
    else if (named[DT_RPATH])
        object->rpath = dynamic_string(object, object->tags[DT_RPATH]);
}

const char *object_next_needed(const struct object *object, size_t *position)
{
    GElf_Dyn entry;
    while (dynamic_entry(object, *position, &entry)) {
        (*position)++;
        const char *name = NULL;
        if (entry.d_tag == DT_NEEDED)
            name = dynamic_string(object, entry.d_un.d_val);
        if (name != NULL && *name != '\0')
            return name;
    }
    return NULL;
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
    if (object->elf == NULL || !read_header(object)) {
        object->damage = "its ELF header is cut off or damaged";
        return;
    }
    read_segments(object);
    if (object->damage == NULL && object->dynamic != NULL)
        read_tags(object);
    if (object->damage == NULL)
        object_read_symbols(object);
}

bool object_open(struct object *object, const char *path)
{
    struct stat status;
    void *image = NULL; /* that of an empty file stays NULL */
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

bool object_mentions(const struct object *object, const char *text)
{
    return object->size > 0 && memmem(object->image, object->size, text, strlen(text)) != NULL;
}
