/* SPDX-License-Identifier: Apache-2.0 */
/* compshim run: starts a program with the shim preloaded, and sees to it that launchers hand the
 * preload on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

struct run_options {
    const char *policy;
    bool off;
    bool dlsym;
    bool verbose;
};

static const struct tool_option options[] = {
    {"policy", 'p', TOOL_TEXT, offsetof(struct run_options, policy), "FILE",
     "use this policy.ini (it is checked before anything starts)"},
    {"off", 0, TOOL_FLAG, offsetof(struct run_options, off), NULL,
     "preload the shim but let it compress nothing"},
    {"dlsym", 0, TOOL_FLAG, offsetof(struct run_options, dlsym), NULL,
     "also catch MPI and NCCL functions that the program fetches with dlsym"},
    {"verbose", 'v', TOOL_FLAG, offsetof(struct run_options, verbose), NULL,
     "say on stderr what is set, what was found, and how it reaches the ranks"},
    {0},
};

static void set(const char *name, const char *value, bool verbose)
{
    if (setenv(name, value, 1) != 0)
        tool_fail(TOOL_SYSTEM, "cannot set %s: %s", name, strerror(errno));
    if (verbose)
        tool_warn("%s=%s", name, value);
}

/* Sets the command's environment. */
static void prepare(const struct run_options *chosen)
{
    char *library = launch_find_library();
    if (!chosen->off || chosen->policy != NULL) {
        /* A policy with an error would end the job at its start: it is found before. */
        const struct cshim_policy *policy = launch_load_policy(chosen->policy);
        if (chosen->verbose)
            tool_warn("policy: %s", policy->source);
    }
    if (chosen->dlsym)
        library = launch_with_dlsym(library);
    if (chosen->policy != NULL)
        set("COMPSHIM_POLICY", launch_absolute(chosen->policy), chosen->verbose);
    if (chosen->off)
        set("COMPSHIM", "off", chosen->verbose);
    set("LD_PRELOAD", launch_preload(library, getenv("LD_PRELOAD")), chosen->verbose);
}

/* A launcher's words, from its own name up to the program's. */
struct launcher {
    char **words;
    char **end;
    bool verbose;
};

/* Adds to a list the names of the shim's variables that are set and not in it yet. */
static const char *add_ours(const char *list)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (cshim_is_forwarded(*entry) && !tool_is_listed(list, ',', *entry, length))
            list = tool_format("%s%s%.*s", list, *list != '\0' ? "," : "", (int)length, *entry);
    }
    return list;
}

/* Finds the word with an option's value: "--export=VALUE", or the word behind "--export". NULL if
 * the option is not given. */
static char **find_option(const struct launcher *launcher, const char *option)
{
    for (char **word = launcher->words + 1; word < launcher->end; word++) {
        if (!tool_starts_with(*word, option))
            continue;
        if ((*word)[strlen(option)] == '=')
            return word;
        if ((*word)[strlen(option)] == '\0' && word + 1 < launcher->end)
            return word + 1;
    }
    return NULL;
}

/* srun gives its tasks the variables of its list; all, if there is no list or it has ALL in it. */
static void mend_srun(const struct launcher *launcher)
{
    char **word = find_option(launcher, "--export");
    const char *begin = word != NULL && tool_starts_with(*word, "--export=") ? "--export=" : "";
    const char *list = word != NULL ? *word + strlen(begin) : getenv("SLURM_EXPORT_ENV");
    const char *mended = list;
    if (list != NULL && !tool_is_listed(list, ',', "ALL", strlen("ALL")))
        mended = add_ours(strcmp(list, "NONE") != 0 ? list : "");
    if (list == NULL || strcmp(mended, list) == 0) {
        if (launcher->verbose)
            tool_warn("srun: LD_PRELOAD and COMPSHIM_* go to all tasks");
        return;
    }
    if (word != NULL)
        *word = tool_format("%s%s", begin, mended);
    else
        set("SLURM_EXPORT_ENV", mended, false);
    tool_warn("srun: %s becomes %s, for the library to reach the tasks",
              word != NULL ? "--export" : "SLURM_EXPORT_ENV", mended);
}

/* Changes nothing: what a batch job's script does with its environment is not known. */
static void see_sbatch(const struct launcher *launcher)
{
    char **word = find_option(launcher, "--export");
    const char *list = word != NULL ? *word : getenv("SBATCH_EXPORT");
    if (list != NULL && strstr(list, "ALL") == NULL && strstr(list, "LD_PRELOAD") == NULL)
        tool_warn("sbatch: --export keeps LD_PRELOAD from the script; let the script start the "
                  "program by compshim run");
    else if (launcher->verbose)
        tool_warn("sbatch: LD_PRELOAD and COMPSHIM_* go to the script and to what it starts");
}

/* MPICH's mpirun is a link to mpiexec.hydra. */
static bool is_hydra(const char *name)
{
    struct check_program program;
    if (check_program_find(&program, name) != NULL)
        return false;
    const char *real = realpath(program.scripts > 0 ? program.script_paths[0] : program.path, NULL);
    return real != NULL && strstr(basename(real), "hydra") != NULL;
}

static void see_mpirun(const struct launcher *launcher)
{
    bool hydra = is_hydra(launcher->words[0]);
    for (char **word = launcher->words + 1; word < launcher->end; word++) {
        if (strcmp(*word, "mca_base_env_list") == 0)
            tool_warn("mpirun: mca_base_env_list stands as it is given: it has to name LD_PRELOAD "
                      "and COMPSHIM_*");
        if (hydra && (strcmp(*word, "-genvnone") == 0 || strcmp(*word, "-genvlist") == 0))
            tool_warn(
                "mpirun: %s keeps LD_PRELOAD from the ranks; use -genvall, or name LD_PRELOAD "
                "and COMPSHIM_*",
                *word);
    }
    if (launcher->verbose)
        tool_warn(hydra ? "mpirun: Hydra gives its environment to all ranks"
                        : "mpirun: the library has Open MPI forward LD_PRELOAD and COMPSHIM_* to "
                          "all nodes");
}

static void see_torchrun(const struct launcher *launcher)
{
    if (launcher->verbose)
        tool_warn("torchrun: the workers of this node inherit the environment; start torchrun by "
                  "compshim run on each node");
}

static void see_horovodrun(const struct launcher *launcher)
{
    for (char **word = launcher->words + 1; word < launcher->end; word++)
        if (strcmp(*word, "--gloo") == 0)
            tool_warn("horovodrun: gloo is neither MPI nor NCCL: its all-reduces are not caught; "
                      "use --mpi");
    if (launcher->verbose)
        tool_warn("horovodrun: it gives its environment to all ranks");
}

/* Sees to it that the launchers in a command line hand LD_PRELOAD and COMPSHIM_*, which are set
 * already, to all ranks. Adds them to srun's --export where that would leave them out: in the
 * words, or in SLURM_EXPORT_ENV. Warns of what it cannot change. verbose: tells of each launcher
 * what it does with the variables. */
static void forward(char **words, bool verbose)
{
    static const struct {
        const char *names;
        void (*see)(const struct launcher *launcher);
    } known[] = {
        {"srun", mend_srun},        {"sbatch salloc", see_sbatch},  {"mpirun mpiexec", see_mpirun},
        {"torchrun", see_torchrun}, {"horovodrun", see_horovodrun},
    };
    char **program = check_behind_launchers(words);
    char **end = program;
    while (*end != NULL)
        end++;
    for (char **word = words; word <= program && *word != NULL; word++)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (tool_is_program(*word, known[i].names))
                known[i].see(&(struct launcher){word, word < program ? program : end, verbose});
}

static bool is_off(const struct run_options *chosen)
{
    const char *value = getenv("COMPSHIM");
    return chosen->off || (value != NULL && (strcmp(value, "off") == 0 || strcmp(value, "0") == 0));
}

static int run(int argc, char **argv)
{
    struct run_options chosen = {0};
    int first = tool_parse(&tool_run, argc, argv, &chosen);
    if (first == argc)
        tool_misuse("run", "no command to run");
    prepare(&chosen);
    if (!chosen.off)
        check_warn(argv + first, chosen.verbose);
    int receiver = !is_off(&chosen) && locality_is_certain(argv + first) ? watch_run_open() : -1;
    forward(argv + first, chosen.verbose);
    if (receiver >= 0)
        return watch_run(argv + first, receiver, chosen.dlsym);
    execvp(argv[first], argv + first);
    int error = errno;
    unsetenv("LD_PRELOAD");
    tool_fail(TOOL_SYSTEM, "cannot run '%s': %s", argv[first], strerror(error));
}

const struct tool_command tool_run = {
    .name = "run",
    .summary = "start a program with the shim preloaded",
    .usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
    .details =
        "The library is found beside this tool or in the lib folder of the same prefix. What "
        "LD_PRELOAD\nholds already stays in force behind it. Without --policy the program "
        "looks for its policy as\ncompshim-policy(5) says. A program that the preload cannot "
        "reach is told of, and started all the\nsame; at the end one line says if no process on "
        "this host came to MPI or NCCL through the library.\nBehind srun, --export is made to let "
        "the library through; mpirun, torchrun and horovodrun need\nnothing. --dlsym is for "
        "programs that open MPI or NCCL at run time, as Julia, JAX, vLLM and ctypes\ndo.\n\n"
        "  compshim run --policy policy.ini -- mpirun -n 4 ./train\n",
    .takes_command = true,
    .options = options,
    .run = run,
};
