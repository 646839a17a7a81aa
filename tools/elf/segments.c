/* SPDX-License-Identifier: Apache-2.0 */
/* Where the addresses of an ELF file are in the file. */
#include "tools/elf/elf.h"

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
