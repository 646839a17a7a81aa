/* SPDX-License-Identifier: Apache-2.0 */
/* What each launcher does with the environment of compshim run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

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
    else if (setenv("SLURM_EXPORT_ENV", mended, 1) != 0)
        tool_fail(TOOL_SYSTEM, "cannot set SLURM_EXPORT_ENV: %s", strerror(errno));
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

void forward_prepare(char **words, bool verbose)
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
