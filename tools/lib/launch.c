/* SPDX-License-Identifier: Apache-2.0 */
/* Files of this installation, LD_PRELOAD, and the policy of a launch. */
#include "tools/lib/launch.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

#define LIBRARY_NAME "libcompshim.so"
#define DLSYM_NAME "libcompshim_dl.so"

/* The loader takes both for separators in LD_PRELOAD, and knows no quotes. */
#define PRELOAD_SEPARATORS " :"

char *launch_find(const char *name, const char *const *folders, size_t count, const char *advice)
{
    char *tool = realpath("/proc/self/exe", NULL);
    if (tool == NULL)
        tool_fail(TOOL_SYSTEM, "cannot find this program's own file by /proc/self/exe: %s",
                  strerror(errno));
    *strrchr(tool, '/') = '\0';
    char *found = NULL;
    for (size_t i = 0; i < count && found == NULL; i++)
        found = realpath(tool_format("%s%s/%s", tool, folders[i], name), NULL);
    if (found == NULL)
        tool_fail(TOOL_SYSTEM, "no %s in %s, %s", name, tool, advice);
    return found;
}

char *launch_find_library(void)
{
    static const char *const folders[] = {"", "/../lib", "/../lib64", "/../lib/x86_64-linux-gnu",
                                          "/../lib/aarch64-linux-gnu"};
    char *library = launch_find(
        LIBRARY_NAME, folders, sizeof folders / sizeof *folders,
        "nor in lib, lib64, lib/x86_64-linux-gnu or lib/aarch64-linux-gnu beside it; build it with "
        "make or install both into one prefix");
    if (strpbrk(library, PRELOAD_SEPARATORS) != NULL)
        tool_fail(TOOL_SYSTEM,
                  "%s: LD_PRELOAD cannot name a path with a space or a colon; move the library",
                  library);
    return library;
}

static bool is_shim(const char *entry, size_t length)
{
    const char *slash = memrchr(entry, '/', length);
    const char *name = slash != NULL ? slash + 1 : entry;
    return tool_is_listed(LIBRARY_NAME " " DLSYM_NAME, ' ', name, (size_t)(entry + length - name));
}

char *launch_with_dlsym(const char *library)
{
    int folder = (int)(strrchr(library, '/') - library);
    char *value = tool_format("%s:%.*s/" DLSYM_NAME, library, folder, library);
    const char *added = value + strlen(library) + 1;
    if (access(added, R_OK) != 0)
        tool_fail(TOOL_SYSTEM, "%s: %s; build it with make, or run without --dlsym", added,
                  strerror(errno));
    return value;
}

char *launch_preload(const char *library, const char *existing)
{
    char *value = tool_copy(library != NULL ? library : "");
    for (const char *entry = existing; entry != NULL && *entry != '\0';) {
        size_t length = strcspn(entry, PRELOAD_SEPARATORS);
        if (length > 0 && !is_shim(entry, length))
            value = tool_format("%s%s%.*s", value, *value != '\0' ? ":" : "", (int)length, entry);
        entry += length;
        entry += strspn(entry, PRELOAD_SEPARATORS);
    }
    return value;
}

struct cshim_policy *launch_load_policy(const char *path)
{
    size_t length = 0;
    char source[CSHIM_PATH_MAX];
    char message[CSHIM_MESSAGE_MAX];
    char *text = cshim_policy_load(path, &length, source, message);
    if (text == NULL)
        tool_fail(TOOL_NOT_SO, "%s", message);
    if (message[0] != '\0')
        tool_warn("%s", message);
    struct cshim_policy *policy = cshim_policy_parse(text, length, source, message);
    free(text);
    if (policy == NULL)
        tool_fail(TOOL_NOT_SO, "%s", message);
    return policy;
}

char *launch_absolute(const char *path)
{
    char *absolute = realpath(path, NULL);
    if (absolute == NULL)
        tool_fail(TOOL_SYSTEM, "%s: %s", path, strerror(errno));
    return absolute;
}

/* The ranks that a launcher's command line asks for: the first -n or -np of each of its parts,
 * which stand between colons. */
static unsigned long count_ranks(char *const *command)
{
    unsigned long ranks = 0;
    bool is_counted = false;
    for (; *command != NULL; command++) {
        const char *name = *command + strspn(*command, "-");
        if (strcmp(*command, ":") == 0) {
            is_counted = false;
        } else if (!is_counted && name != *command && command[1] != NULL &&
                   (strcmp(name, "n") == 0 || strcmp(name, "np") == 0)) {
            ranks += strtoul(command[1], NULL, 10);
            is_counted = true;
        }
    }
    return ranks;
}

/* The cores that this process may use; two processors share one if the system says so. */
static unsigned long count_cores(void)
{
    cpu_set_t set;
    size_t length = 0;
    char *shared = tool_read_file("/sys/devices/system/cpu/smt/active", &length);
    unsigned long processors = sched_getaffinity(0, sizeof set, &set) == 0
                                   ? (unsigned long)CPU_COUNT(&set)
                                   : (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
    bool is_shared = shared != NULL && *shared == '1';
    free(shared);
    return is_shared ? (processors + 1) / 2 : processors;
}

void launch_permit_mpirun(char *const *command, bool is_local)
{
    bool is_mpirun = false; /* a launcher may stand behind env or timeout */
    for (char *const *word = command; *word != NULL; word++)
        is_mpirun |=
            tool_is_program(*word, "mpirun mpirun.openmpi mpiexec mpiexec.openmpi orterun prterun");
    if (!is_mpirun)
        return;
    if (is_local && count_ranks(command) > count_cores()) {
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
        setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    }
    if (geteuid() == 0 && getenv("OMPI_ALLOW_RUN_AS_ROOT") == NULL) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        tool_warn("note: mpirun is allowed to run as root, by OMPI_ALLOW_RUN_AS_ROOT");
    }
}
