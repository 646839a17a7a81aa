/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps any preload out of a program, whatever it calls. */
#include <stdlib.h>
#include <string.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

/* Position-independent programs without a loader are told from libraries by their flag, or (older
 * linkers) by what only libraries have. */
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

static char *describe_machine(const struct object *object)
{
    return tool_format("%s, %s bits, %s-endian", machine_name(object->machine),
                       object->elf_class == ELFCLASS64 ? "64" : "32",
                       object->byte_order == ELFDATA2MSB ? "big" : "little");
}

static void judge_machine(const struct object *object, const struct object *front, const char *file,
                          struct check_judgement *judgement)
{
    char *theirs = describe_machine(object);
    char *ours = describe_machine(front);
    check_set(judgement, CHECK_NOT_CAUGHT, CHECK_MACHINE,
              tool_format("%s is for %s, and libcompshim.so is for %s", file, theirs, ours),
              tool_copy("build compshim for the program's machine"));
    free(theirs);
    free(ours);
}

static bool same_machine(const struct object *one, const struct object *other)
{
    return one->elf_class == other->elf_class && one->byte_order == other->byte_order &&
           one->machine == other->machine;
}

/* A file that the system cannot start, or not on this machine. */
static bool judge_format(const struct object *object, const struct object *front, const char *file,
                         struct check_judgement *judgement)
{
    if (!object_is_elf(object))
        check_set(judgement, CHECK_NOT_CAUGHT, CHECK_NO_PROGRAM,
                  tool_format("%s is neither an ELF file nor a script that begins with #!", file),
                  tool_copy("check the program that runs it"));
    else if (object->elf_class != 0 && !same_machine(object, front))
        judge_machine(object, front, file, judgement);
    else if (object->damage != NULL)
        check_set(judgement, CHECK_NOT_CAUGHT, CHECK_DAMAGED,
                  tool_format("%s: %s", file, object->damage),
                  tool_copy("build, copy or install it again"));
    else
        return false;
    return true;
}

/* A program without the loader that knows LD_PRELOAD as this library needs it. */
static bool judge_loader(const struct object *object, const char *file,
                         struct check_judgement *judgement)
{
    if (is_static(object))
        check_set(judgement, CHECK_NOT_CAUGHT, CHECK_STATIC,
                  tool_format("%s is linked statically: no loader runs that could preload", file),
                  tool_copy("link it without -static, to the shared MPI or NCCL library"));
    else if (object->interpreter != NULL && !is_glibc_loader(object->interpreter))
        check_set(judgement, CHECK_NOT_CAUGHT, CHECK_C_LIBRARY,
                  tool_format("%s runs with %s, which is not the loader of glibc", file,
                              check_base_name(object->interpreter)),
                  tool_copy("build it for glibc, as libcompshim.so is"));
    else
        return false;
    return true;
}

static bool judge_secure(const char *path, struct check_judgement *judgement)
{
    char *why = check_secure_mode(path);
    if (why == NULL)
        return false;
    check_set(
        judgement, CHECK_NOT_CAUGHT, CHECK_SECURE,
        tool_format("%s %s, and the loader ignores LD_PRELOAD for you", check_base_name(path), why),
        tool_copy("run a copy of the file: cp leaves such bits and capabilities behind"));
    free(why);
    return true;
}

bool check_judge_file(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct object *object = &findings->closure.objects[0].object;
    const char *file = check_base_name(findings->program.path);
    return judge_format(object, &findings->front, file, judgement) ||
           judge_loader(object, file, judgement) || judge_secure(findings->program.path, judgement);
}
