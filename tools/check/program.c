/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file that the system runs for a name, its type by its name, the program in a command
 * line, and whether the command's processes stay on this host. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

#define BLANKS " \t\n"
#define SCRIPT_LINE_MAX 256 /* Linux's limit for a #! line */

static bool is_program(const char *path)
{
    return tool_is_regular(path) && access(path, X_OK) == 0;
}

/* Finds a program by its name in PATH, or by its path. Returns NULL if there is none. */
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

/* Returns the program in env's arguments, after its options and assignments; NULL if there is none.
 * Writes to `words`. */
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

/* Returns the interpreter in the #! line of a script, or the program that env runs there; NULL if
 * there is no such line or file. */
static char *read_interpreter(const char *path)
{
    char *text = tool_allocate(SCRIPT_LINE_MAX, 1);
    FILE *file = tool_is_regular(path) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return NULL;
    const char *line = fgets(text, SCRIPT_LINE_MAX, file);
    fclose(file);
    if (line == NULL || strncmp(line, "#!", 2) != 0)
        return NULL;
    char *rest = NULL;
    char *interpreter = strtok_r(text + 2, BLANKS, &rest);
    if (interpreter == NULL || strcmp(basename(interpreter), "env") != 0)
        return interpreter;
    char *program = program_of_env(rest);
    return program != NULL ? program : interpreter;
}

char *check_program_find(struct check_program *program, const char *name)
{
    char *interpreter = NULL;
    *program = (struct check_program){.path = find_executable(name)};
    if (program->path == NULL && access(name, F_OK) == 0)
        program->path = tool_copy(name); /* not executable; may be a library */
    if (program->path == NULL)
        return tool_format("%s: no such program or file", name);
    while (program->scripts < CHECK_SCRIPTS_MAX &&
           (interpreter = read_interpreter(program->path)) != NULL) {
        char *path = find_executable(interpreter);
        if (path == NULL && interpreter[strlen(interpreter) - 1] == '\r')
            return tool_format("%s: its first line ends with a carriage return, which counts as a "
                               "part of the interpreter's name; give it the line ends of Unix",
                               program->path);
        if (path == NULL)
            return tool_format("%s: its interpreter '%s' is no program; install it", program->path,
                               interpreter);
        program->script_paths[program->scripts++] = program->path;
        program->path = path;
    }
    return NULL;
}

static const char interpreters[] = "python ipython pypy julia R Rscript perl ruby lua luajit "
                                   "octave guile tclsh node nodejs java php MATLAB";

/* Programs whose last arguments are another program and its arguments. */
#define LAUNCHERS                                                                                  \
    "mpirun mpiexec orterun prterun prun srun aprun jsrun env nice ionice nohup time timeout "     \
    "setsid stdbuf taskset numactl sudo chrt strace"

static const char starters[] = LAUNCHERS " sh bash dash ash zsh ksh fish busybox make ssh xargs "
                                         "find parallel sbatch screen tmux";

/* Returns true if a file has a name of the list, possibly with a suffix: python3.11,
 * mpirun.openmpi. */
static bool is_one_of(const char *path, const char *names)
{
    const char *name = basename(path);
    return tool_is_listed(names, ' ', name, strcspn(name, ".0123456789"));
}

enum check_calling check_calling(const char *path)
{
    const char *resolved = realpath(path, NULL);
    const char *real = resolved != NULL ? resolved : path;
    if (is_one_of(path, interpreters) || is_one_of(real, interpreters) ||
        fnmatch("*.py", path, 0) == 0)
        return CHECK_INTERPRETER;
    const bool is_starter = is_one_of(path, starters) || is_one_of(real, starters);
    return is_starter ? CHECK_STARTER : CHECK_PROGRAM;
}

/* Options of launchers whose argument may be the name of a program, such as node or test. */
static const struct {
    const char *launchers, *options;
} options_with_names[] = {
    {"mpirun mpiexec orterun mpirun.openmpi mpiexec.openmpi",
     "map-by rank-by bind-to H host hostfile machinefile x"},
    {"srun", "p partition J job-name A account q qos C constraint w nodelist x exclude M clusters"},
};

/* Returns true if the word after an option of a launcher is the option's argument. */
static bool has_argument(const char *launcher, const char *option)
{
    const char *name = option + strspn(option, "-");
    bool is_listed = false;
    for (size_t i = 0; i < sizeof options_with_names / sizeof *options_with_names; i++)
        is_listed |= tool_is_program(launcher, options_with_names[i].launchers) &&
                     tool_is_listed(options_with_names[i].options, ' ', name, strlen(name));
    return *option == '-' && is_listed;
}

/* Only the launcher knows which of its other options have an argument. An argument is hardly ever
 * the name of a program, so the first word that is one is used. */
char **check_behind_launchers(char **words)
{
    while (*words != NULL && is_one_of(*words, LAUNCHERS)) {
        const char *launcher = *words;
        do
            words += has_argument(launcher, *words) && words[1] != NULL ? 2 : 1;
        while (*words != NULL && (**words == '-' || find_executable(*words) == NULL));
    }
    return words;
}

/* Programs that start others on other hosts, in containers or other namespaces, or later. */
static const char leading_away[] =
    "srun sbatch salloc sattach qsub bsub flux aprun jsrun lrun ibrun prun ssh rsh pdsh clush "
    "docker podman nerdctl ip bwrap kubectl ray screen tmux at batch nsenter chroot unshare "
    "systemd-run";

/* Kinds of values of launchers' options and variables that say on which hosts to run. */
enum hosts_value {
    HOSTS_LIST,      /* comma-separated names */
    HOSTS_FILE,      /* a file with a name at the beginning of each line */
    HOSTS_ELSEWHERE, /* any other form */
    HOSTS_NONE       /* a value that names no hosts */
};

/* Names of options or variables for each kind of value. */
typedef const char *hosts_names[HOSTS_NONE];

/* Options of Open MPI, Hydra, Horovod, Accelerate or DeepSpeed, with one dash or two. */
static const hosts_names options_with_hosts = {
    [HOSTS_LIST] = "H host hosts hostlist",
    [HOSTS_FILE] = "f hostfile machinefile machine-file machines default-hostfile mpirun_hostfile "
                   "deepspeed_hostfile",
    [HOSTS_ELSEWHERE] = "rf rankfile app configfile host-discovery-script dvm-uri hnp ompi-server",
};

/* Variables of batch systems and launchers. */
static const hosts_names variables_with_hosts = {
    [HOSTS_LIST] = "SLURM_JOB_NODELIST SLURM_NODELIST",
    [HOSTS_FILE] = "PBS_NODEFILE OAR_NODEFILE HYDRA_HOST_FILE OMPI_MCA_orte_default_hostfile "
                   "PRTE_MCA_prte_default_hostfile",
    [HOSTS_ELSEWHERE] = "LSB_JOBID PE_HOSTFILE COBALT_NODEFILE FLUX_URI",
};

static enum hosts_value kind_of_value(const hosts_names names, const char *name)
{
    enum hosts_value kind = HOSTS_LIST;
    while (kind < HOSTS_NONE && !tool_is_listed(names[kind], ' ', name, strcspn(name, "=")))
        kind++;
    return kind;
}

/* Returns true if a name is this host's, or localhost. A domain, a port or other text may follow
 * the name. */
static bool is_this_host(const char *name)
{
    char own[256] = "";
    const size_t length = strcspn(name, ".:, =\t\n");
    if (gethostname(own, sizeof own - 1) != 0)
        return false;
    return (length == strlen("localhost") && strncmp(name, "localhost", length) == 0) ||
           (length > 0 && length == strcspn(own, ".") && strncmp(name, own, length) == 0);
}

static bool lists_this_host_only(const char *list)
{
    bool is_only = true;
    for (; is_only && list != NULL; list = strchr(list, ','), list += list != NULL)
        is_only = is_this_host(list);
    return is_only;
}

static bool file_has_this_host_only(const char *path)
{
    char line[256];
    bool is_only = true;
    FILE *file = tool_is_regular(path) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    while (is_only && fgets(line, sizeof line, file) != NULL)
        is_only = strchr("#\n", line[strspn(line, BLANKS)]) != NULL ||
                  is_this_host(line + strspn(line, BLANKS));
    fclose(file);
    return is_only;
}

/* Returns true if a value may name another host. NULL: no value. */
static bool is_elsewhere(enum hosts_value kind, const char *value)
{
    if (kind == HOSTS_NONE)
        return false;
    return value == NULL || kind == HOSTS_ELSEWHERE ||
           !(kind == HOSTS_LIST ? lists_this_host_only(value) : file_has_this_host_only(value));
}

/* Returns true if an option, whose value may be the next word, may name another host. */
static bool names_hosts(char *const *word)
{
    const char *name = *word + strspn(*word, "-"), *equals = strchr(name, '=');
    return name != *word && is_elsewhere(kind_of_value(options_with_hosts, name),
                                         equals != NULL ? equals + 1 : word[1]);
}

bool check_leads_away(char **words)
{
    char **last = check_behind_launchers(words);
    char **end = words;
    /* The words after the program are examined, too, if a colon separates parts of the command,
     * which have options of their own, or if the launcher is one of the three below, which
     * check_behind_launchers() takes for the program. torchrun starts workers on this host only,
     * whatever hosts it is given. */
    bool has_parts = tool_is_program(*words, "horovodrun accelerate deepspeed");
    if (tool_is_program(*words, "deepspeed") && access("/job/hostfile", F_OK) == 0)
        return true; /* the default of --hostfile */
    for (; *end != NULL; end++)
        has_parts |= strcmp(*end, ":") == 0;
    last = has_parts ? end : last;
    for (char **word = words; *word != NULL && word <= last; word++)
        if (tool_is_program(*word, leading_away) || (word < last && names_hosts(word)))
            return true;
    return false;
}

bool locality_is_certain(char **words)
{
    /* A batch job without a list of its nodes may use any host. */
    const char *slurm = getenv("SLURM_JOB_NODELIST"), *pbs = getenv("PBS_NODEFILE");
    if (check_leads_away(words) || (getenv("SLURM_JOB_ID") != NULL && slurm == NULL) ||
        (getenv("PBS_JOBID") != NULL && pbs == NULL))
        return false;
    for (char **entry = environ; *entry != NULL; entry++)
        if (is_elsewhere(kind_of_value(variables_with_hosts, *entry), strchr(*entry, '=') + 1))
            return false;
    return true;
}
