/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that no preload can get into, whatever they call. */
#include <string.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

/* Whether an object is a program without a loader. A position-independent one differs from a
 * library by its flag; older linkers do not set it, but then a library has a name, no entry, or
 * libraries that it needs. */
static bool is_static(const struct object *object)
{
    size_t position = 0;
    if (object->interpreter != NULL)
        return false;
    return object->type == ET_EXEC || object->pie ||
           (object->soname == NULL && object->entry != 0 &&
            object_next_needed(object, &position) == NULL);
}

static bool is_glibc_loader(const char *path)
{
    const char *name = check_base_name(path);
    return check_starts_with(name, "ld-linux") || check_starts_with(name, "ld64.so") ||
           check_starts_with(name, "ld.so") || check_starts_with(name, "ld-2.");
}

static const char *machine_name(unsigned machine)
{
    switch (machine) {
    case EM_386:
        return "i386";
    case EM_X86_64:
        return "x86-64";
    case EM_ARM:
        return "ARM";
    case EM_AARCH64:
        return "AArch64";
    case EM_PPC64:
        return "PowerPC64";
    case EM_RISCV:
        return "RISC-V";
    case EM_S390:
        return "S/390";
    default:
        return "another machine";
    }
}

static const char *describe_machine(const struct object *object)
{
    return tool_format("%s, %s bits, %s-endian", machine_name(object->machine),
                       object->elf_class == ELFCLASS64 ? "64" : "32",
                       object->byte_order == ELFDATA2MSB ? "big" : "little");
}

bool check_judge_file(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct object *object = &findings->closure.objects[0].object, *front = &findings->front;
    const char *file = check_base_name(findings->program.path);
    const char *secure = check_secure_mode(findings->program.path);
    if (!object_is_elf(object))
        check_set(judgement, CHECK_NO_PROGRAM, "check the program that runs it",
                  "%s is neither an ELF file nor a script that begins with #!", file);
    else if (object->elf_class != 0 && !object_is_for(object, front))
        check_set(judgement, CHECK_MACHINE, "build compshim for the program's machine",
                  "%s is for %s, and libcompshim.so is for %s", file, describe_machine(object),
                  describe_machine(front));
    else if (object->damage != NULL)
        check_set(judgement, CHECK_DAMAGED, "build, copy or install it again", "%s: %s", file,
                  object->damage);
    else if (is_static(object))
        check_set(judgement, CHECK_STATIC,
                  "link it without -static, to the shared MPI or NCCL library",
                  "%s is linked statically: no loader runs that could preload", file);
    else if (object->interpreter != NULL && !is_glibc_loader(object->interpreter))
        check_set(judgement, CHECK_C_LIBRARY, "build it for glibc, as libcompshim.so is",
                  "%s runs with %s, which is not the loader of glibc", file,
                  check_base_name(object->interpreter));
    else if (secure != NULL)
        check_set(judgement, CHECK_SECURE,
                  "run a copy of the file: cp leaves such bits and capabilities behind",
                  "%s %s, and the loader ignores LD_PRELOAD for you", file, secure);
    else
        return false;
    return true;
}
