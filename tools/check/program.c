/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file that the system runs for a name, and what its name tells. */
#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

#define BLANKS " \t\r"
#define SCRIPT_LINE_MAX 256 /* what Linux reads of a #! line */

const char *check_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool check_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Finds a program by its name in PATH, or by its path. NULL if there is none. */
static char *find_executable(const char *name)
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return is_program(name) ? tool_copy(name) : NULL;
    for (folders = folders != NULL ? folders : "/bin:/usr/bin"; *folders != '\0';) {
        size_t length = strcspn(folders, ":");
        char *path = tool_format("%.*s/%s", (int)length, folders, name);
        if (length > 0 && is_program(path))
            return path;
        folders += length;
        folders += *folders == ':';
    }
    return NULL;
}

/* Finds the file of a name. It may be one that is no program, such as a library. */
static char *find_file(const char *name)
{
    char *path = find_executable(name);
    if (path == NULL && access(name, F_OK) == 0)
        path = tool_copy(name);
    return path;
}

/* The program in env's arguments, behind its options and assignments; NULL if there is none. Writes
 * to words. */
static char *program_of_env(char *words)
{
    char *rest = NULL;
    for (char *word = strtok_r(words, BLANKS, &rest); word != NULL;
         word = strtok_r(NULL, BLANKS, &rest)) {
        if (strncmp(word, "-S", 2) == 0 && word[2] != '\0')
            word += 2;
        if (strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0)
            strtok_r(NULL, BLANKS, &rest);
        else if (*word != '-' && strchr(word, '=') == NULL)
            return word;
    }
    return NULL;
}

/* What the #! line of a script names, or NULL if the file has none or cannot be read. */
static char *read_interpreter(const char *path)
{
    char line[SCRIPT_LINE_MAX] = "";
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    line[length] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    char *rest = NULL;
    char *interpreter = strtok_r(line + 2, BLANKS, &rest);
    if (interpreter != NULL && strcmp(check_base_name(interpreter), "env") == 0) {
        char *program = program_of_env(rest);
        interpreter = program != NULL ? program : interpreter;
    }
    return interpreter != NULL ? tool_copy(interpreter) : NULL;
}

char *check_program_find(struct check_program *program, const char *name)
{
    char *interpreter = NULL;
    *program = (struct check_program){.path = find_file(name)};
    if (program->path == NULL)
        return tool_format("%s: no such program or file", name);
    while (program->scripts < CHECK_SCRIPTS_MAX &&
           (interpreter = read_interpreter(program->path)) != NULL) {
        char *path = find_executable(interpreter);
        if (path == NULL)
            return tool_format("%s: its interpreter '%s' is no program; install it", program->path,
                               interpreter);
        program->script_paths[program->scripts++] = program->path;
        program->path = path;
    }
    return NULL;
}

char *check_secure_mode(const char *path)
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

/* Whether a file has a name of the list, perhaps with a version: python3.11, mpirun.openmpi. */
static bool is_one_of(const char *path, const char *const *names)
{
    const char *name = check_base_name(path);
    for (; *names != NULL; names++) {
        size_t length = strlen(*names);
        if (strncmp(name, *names, length) == 0 &&
            (name[length] == '\0' || name[length] == '.' || isdigit((unsigned char)name[length])))
            return true;
    }
    return false;
}

static const char *const interpreters[] = {
    "python", "ipython", "pypy",  "julia", "R",      "Rscript", "perl", "ruby",   "lua", "luajit",
    "octave", "guile",   "tclsh", "node",  "nodejs", "java",    "php",  "MATLAB", NULL};

static const char *const starters[] = {"sh",       "bash",    "dash",   "ash",  "zsh",   "ksh",
                                       "fish",     "busybox", "make",   "ssh",  "xargs", "find",
                                       "parallel", "sbatch",  "screen", "tmux", NULL};

/* Programs whose arguments are options, and then a program. */
static const char *const launchers[] = {
    "mpirun",  "mpiexec", "orterun", "prterun", "prun",   "srun",    "aprun",  "jsrun",
    "env",     "nice",    "ionice",  "nohup",   "time",   "timeout", "setsid", "stdbuf",
    "taskset", "numactl", "sudo",    "chrt",    "strace", NULL};

enum check_calling check_calling(const char *path)
{
    const char *resolved = realpath(path, NULL);
    const char *real = resolved != NULL ? resolved : path;
    if (is_one_of(path, interpreters) || is_one_of(real, interpreters))
        return CHECK_INTERPRETER;
    return is_one_of(path, starters) || is_one_of(real, starters) || is_one_of(path, launchers) ||
                   is_one_of(real, launchers)
               ? CHECK_STARTER
               : CHECK_PROGRAM;
}

/* Which options have an argument, only the launcher knows. An argument is hardly ever the name of a
 * program, so the first word that is one is taken. */
const char *check_behind_launchers(char **words)
{
    while (*words != NULL && is_one_of(*words, launchers))
        do
            words++;
        while (*words != NULL && (**words == '-' || find_executable(*words) == NULL));
    return *words;
}

size_t check_launchers_words(char **words, size_t *all)
{
    const char *program = check_behind_launchers(words);
    size_t count = 0;
    for (*all = 0; words[*all] != NULL; ++*all)
        count += count == *all && words[*all] != program ? 1 : 0;
    return count;
}
