/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in mpirun itself, before its main(): makes Open MPI forward LD_PRELOAD and the shim's
 * variables (cshim_is_forwarded) to ranks on other hosts, so that one command works across hosts.
 *
 * Open MPI forwards variables by -x on the command line or by the parameter mca_base_env_list, and
 * refuses both at once. Without -x, this file sets the parameter in the environment. With -x, also
 * among the program's arguments, it runs Open MPI's mpirun again with one more -x for each
 * variable. It does neither if the parameter is set already, on the command line, in a file that
 * the command line names (--app, --tune, --am), or in the parameter file of the user or the site;
 * nor if a named file contains -x. The shim's paths in LD_PRELOAD, and a path in COMPSHIM_POLICY,
 * are made absolute in any case; Hydra, MPICH's launcher, needs nothing else, because by default it
 * forwards the whole environment. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/environment.h"

#define LIST "mca_base_env_list"
#define ENV_LIST "OMPI_MCA_" LIST
#define PARAMETERS "openmpi-mca-params.conf"
#define MARK "COMPSHIM_FORWARDED"

extern char **environ;

enum launcher { NO_LAUNCHER, OPEN_MPI, HYDRA };

/* Returns the launcher that this process is, by its name. Hydra under the name mpirun or mpiexec
 * counts as Open MPI's: it ignores Open MPI's parameter. */
static enum launcher which_launcher(void)
{
    static const struct {
        const char *name;
        enum launcher launcher;
    } known[] = {{"mpirun", OPEN_MPI},          {"mpiexec", OPEN_MPI},   {"orterun", OPEN_MPI},
                 {"mpirun.openmpi", OPEN_MPI},  {"mpirun.mpich", HYDRA}, {"mpiexec.mpich", HYDRA},
                 {"mpiexec.openmpi", OPEN_MPI}, {"mpirun.hydra", HYDRA}, {"mpiexec.hydra", HYDRA}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(program_invocation_short_name, known[i].name) == 0)
            return known[i].launcher;
    return NO_LAUNCHER;
}

/* Returns true if this process has functions of Open MPI's launchers: those of versions 2 to 4 are
 * linked to opal, and that of version 5 to PMIx. Other launchers may refuse -x. */
static bool is_of_open_mpi(void)
{
    return dlsym(RTLD_DEFAULT, "opal_output") != NULL ||
           dlsym(RTLD_DEFAULT, "PMIx_Get_version") != NULL;
}

/* Returns true if an entry of LD_PRELOAD is this library, or its libcompshim_dl.so. */
static bool is_own_entry(const char *entry)
{
    Dl_info info;
    if (!dladdr((const void *)which_launcher, &info) || info.dli_fname == NULL)
        return false;
    const size_t length = strlen(info.dli_fname), stem = length < 3 ? 0 : length - 3; /* .so */
    return strcmp(entry, info.dli_fname) == 0 ||
           (strncmp(entry, info.dli_fname, stem) == 0 && strcmp(entry + stem, "_dl.so") == 0);
}

/* Makes our entries of LD_PRELOAD absolute, because ranks may start in another folder. */
static void make_preload_absolute(void)
{
    const char *entry = getenv("LD_PRELOAD");
    char name[PATH_MAX], absolute[PATH_MAX], list[4 * PATH_MAX] = "";
    size_t length = 0;
    while (entry != NULL && *entry != '\0') {
        const size_t size = strcspn(entry, " :");
        if (size >= sizeof name)
            return;
        memcpy(name, entry, size);
        name[size] = '\0';
        const char *text = is_own_entry(name) && realpath(name, absolute) != NULL ? absolute : name;
        const char *separator = length > 0 && *text != '\0' ? ":" : "";
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", separator, text);
        if (length >= sizeof list)
            return;
        entry += size + (entry[size] != '\0');
    }
    if (entry != NULL)
        setenv("LD_PRELOAD", list, 1);
}

/* Makes COMPSHIM_POLICY absolute, because ranks may start in another folder (--wdir). Names of
 * built-in policies begin with @ and are not changed. */
static void make_policy_absolute(void)
{
    char absolute[PATH_MAX];
    const char *policy = secure_getenv("COMPSHIM_POLICY");
    if (policy != NULL && *policy != '/' && *policy != '@' && realpath(policy, absolute) != NULL)
        setenv("COMPSHIM_POLICY", absolute, 1);
}

/* Returns true if a list of names and of assignments, separated by ';', has this name. */
static bool has_name(const char *list, const char *name, size_t length)
{
    for (; list != NULL; list = strchr(list, ';')) {
        list += *list == ';';
        if (strncmp(list, name, length) == 0 && strchr("=;", list[length]) != NULL)
            return true;
    }
    return false;
}

/* Appends the variables that must be forwarded to Open MPI's parameter, as far as they fit: as
 * NAME, or as NAME=VALUE if the value contains '='. Given NAME, Open MPI would parse such a value,
 * and set a variable with the name before its '='. Omits values with both '=' and ';'. */
static void extend_env_list(void)
{
    char list[4096];
    const char *present = getenv(ENV_LIST);
    size_t length = (size_t)snprintf(list, sizeof list, "%s", present ? present : "");
    if (length >= sizeof list)
        return;
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t name = strcspn(*entry, "=");
        const bool is_value = (*entry)[name] == '=' && strchr(*entry + name + 1, '=') != NULL;
        const size_t size = is_value ? strlen(*entry) : name;
        if (cshim_is_forwarded(*entry) && length + size + 2 <= sizeof list &&
            !has_name(present, *entry, name) && !(is_value && strchr(*entry, ';') != NULL))
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%.*s",
                                       length > 0 ? ";" : "", (int)size, *entry);
    }
    setenv(ENV_LIST, list, 1);
}

/* Runs mpirun again, with "-x NAME" for each variable that must be forwarded as its first
 * arguments. Returns only if that fails; mpirun then continues without these arguments. */
static void start_over_with_x(int argc, char **argv)
{
    size_t count = 0, at = 0;
    for (char **entry = environ; *entry != NULL; entry++)
        count += cshim_is_forwarded(*entry) ? 1 : 0;
    char **arguments = calloc((size_t)argc + 2 * count + 1, sizeof *arguments);
    if (arguments == NULL)
        return;
    arguments[at++] = argv[0];
    bool enough = true;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (!cshim_is_forwarded(*entry))
            continue;
        arguments[at++] = "-x";
        arguments[at] = strndup(*entry, strcspn(*entry, "="));
        enough = enough && arguments[at] != NULL;
        at++;
    }
    memcpy(arguments + at, argv + 1, sizeof *argv * (size_t)argc);
    if (enough && setenv(MARK, "1", 1) == 0)
        execv("/proc/self/exe", arguments);
    unsetenv(MARK);
    for (size_t i = 2; i <= 2 * count; i += 2)
        free(arguments[i]);
    free(arguments);
}

/* Returns true if an argument equals `wanted`. */
static bool has_argument(int argc, char **argv, const char *wanted)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], wanted) == 0)
            return true;
    return false;
}

/* Returns true if a line of a file, other than a comment, contains `text` or, unless it is NULL,
 * `other`. If '_' follows `text`, as in longer names of parameters, the line does not count for
 * it. */
static bool has_line(const char *name, const char *text, const char *other)
{
    char line[1024];
    bool is_there = false;
    struct stat is;
    FILE *file = stat(name, &is) == 0 && S_ISREG(is.st_mode) ? fopen(name, "re") : NULL;
    while (file != NULL && !is_there && fgets(line, sizeof line, file) != NULL) {
        const char *found = strstr(line, text);
        is_there =
            line[strspn(line, " \t")] != '#' && ((found != NULL && found[strlen(text)] != '_') ||
                                                 (other != NULL && strstr(line, other) != NULL));
    }
    if (file != NULL)
        fclose(file);
    return is_there;
}

/* Returns true if a file in a comma-separated list sets the parameter LIST, or has "-x" among its
 * options. */
static bool has_list_in_one_of(const char *names)
{
    char name[PATH_MAX];
    for (;; names++) {
        const size_t length = strcspn(names, ",");
        if (length < sizeof name) {
            memcpy(name, names, length);
            name[length] = '\0';
            if (has_line(name, LIST, "-x "))
                return true;
        }
        names += length;
        if (*names == '\0')
            return false;
    }
}

/* Returns true if a default parameter file sets LIST: the user's, a distribution's, or the one of
 * this mpirun's installation. */
static bool has_list_by_default(void)
{
    static const char *const files[] = {"/etc/openmpi/" PARAMETERS,
                                        "/etc/openmpi-x86_64/" PARAMETERS,
                                        "/etc/openmpi-aarch64/" PARAMETERS};
    char name[PATH_MAX + 64];
    const char *home = getenv("HOME");
    snprintf(name, sizeof name, "%s/.openmpi/mca-params.conf", home != NULL ? home : "");
    if (has_line(name, LIST, NULL))
        return true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (has_line(files[i], LIST, NULL))
            return true;
    const ssize_t length = readlink("/proc/self/exe", name, PATH_MAX);
    name[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(name, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
    }
    const size_t folder = strlen(name);
    snprintf(name + folder, sizeof name - folder, "/etc/" PARAMETERS);
    return has_line(name, LIST, NULL);
}

/* Returns true if the command line or a default parameter file sets LIST, or if a file that the
 * command line names sets LIST or contains -x. Open MPI would reject a second list, or ignore one
 * list. */
static bool has_own_list(int argc, char **argv)
{
    static const char *const files[] = {"--app", "-app", "--tune", "-tune", "--am", "-am"};
    for (int i = 1; i < argc - 1; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++)
            if (strcmp(argv[i], files[k]) == 0 && has_list_in_one_of(argv[i + 1]))
                return true;
    return has_argument(argc, argv, LIST) || has_list_by_default();
}

__attribute__((constructor)) static void forward_environment(int argc, char **argv, char **envp)
{
    const enum launcher launcher = which_launcher();
    (void)envp;
    if (launcher == NO_LAUNCHER)
        return;
    if (getenv(MARK) != NULL) {
        unsetenv(MARK); /* this mpirun has the -x; ranks must not inherit the mark */
        return;
    }
    const int saved_errno = errno;
    make_preload_absolute();
    make_policy_absolute();
    if (launcher == HYDRA || has_own_list(argc, argv))
        ; /* Hydra needs no list; a user's own list is not changed */
    else if (!has_argument(argc, argv, "-x") && !has_argument(argc, argv, "--x"))
        extend_env_list();
    else if (is_of_open_mpi())
        start_over_with_x(argc, argv);
    errno = saved_errno;
}
