/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that no preload can get into, whatever they call. */
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

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

static const char *machine_name(unsigned machine)
{
    static const char *const names[] = {
        [EM_386] = "i386",        [EM_X86_64] = "x86-64",   [EM_ARM] = "ARM",
        [EM_AARCH64] = "AArch64", [EM_PPC64] = "PowerPC64", [EM_RISCV] = "RISC-V",
        [EM_S390] = "S/390",
    };
    const bool is_known = machine < sizeof names / sizeof *names && names[machine] != NULL;
    return is_known ? names[machine] : "another machine";
}

static const char *describe_machine(const struct object *object)
{
    return tool_format("%s, %s bits, %s-endian", machine_name(object->machine),
                       object->elf_class == ELFCLASS64 ? "64" : "32",
                       object->byte_order == ELFDATA2MSB ? "big" : "little");
}

/* Why the loader ignores LD_PRELOAD when this user runs the file: "is set-user-ID root", or that it
 * is set-group-ID or has capabilities. NULL if it does not. */
static char *secure_mode(const char *path)
{
    struct stat status;
    const mode_t group_execute = S_ISGID | S_IXGRP; /* without x it is not set-group-ID */
    if (stat(path, &status) != 0)
        return NULL;
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
        const struct passwd *owner = getpwuid(status.st_uid);
        return owner != NULL ? tool_format("is set-user-ID %s", owner->pw_name)
                             : tool_format("is set-user-ID %u", status.st_uid);
    }
    if ((status.st_mode & group_execute) == group_execute && status.st_gid != getgid())
        return tool_format("is set-group-ID %u", status.st_gid);
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return tool_copy("has file capabilities");
    return NULL;
}

bool check_judge_file(const struct check_findings *findings, struct check_judgement *judgement)
{
    const struct object *object = &findings->closure.objects[0].object, *front = &findings->front;
    const char *file = basename(findings->program.path);
    const char *secure = secure_mode(findings->program.path);
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
    else if (object->interpreter != NULL &&
             !tool_starts_with(basename(object->interpreter), "ld-linux ld64.so ld.so ld-2."))
        check_set(judgement, CHECK_C_LIBRARY, "build it for glibc, as libcompshim.so is",
                  "%s runs with %s, which is not the loader of glibc", file,
                  basename(object->interpreter));
    else if (secure != NULL)
        check_set(judgement, CHECK_SECURE,
                  "run a copy of the file: cp leaves such bits and capabilities behind",
                  "%s %s, and the loader ignores LD_PRELOAD for you", file, secure);
    else
        return false;
    return true;
}
