/* SPDX-License-Identifier: Apache-2.0 */
/* What each launcher does with the environment of compshim run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

extern char **environ;

/* A launcher's words, from its own name up to the program's. */
struct launcher {
    char **words;
    size_t count;
    bool verbose;
};

/* Whether a list "A,B=x" has an item for a name. */
static bool is_listed(const char *list, const char *name, size_t length)
{
    for (const char *item = list; *item != '\0';) {
        size_t item_length = strcspn(item, ",=");
        if (item_length == length && strncmp(item, name, length) == 0)
            return true;
        item += strcspn(item, ",");
        item += *item == ',';
    }
    return false;
}

/* Adds to a list the names of the shim's variables that are set and not in it yet. */
static const char *add_ours(const char *list)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (cshim_is_forwarded(*entry) && !is_listed(list, *entry, length))
            list = tool_format("%s%s%.*s", list, *list != '\0' ? "," : "", (int)length, *entry);
    }
    return list;
}

/* Finds the word with an option's value: "--export=VALUE", or the word behind "--export". NULL if
 * the option is not given. */
static char **find_option(const struct launcher *launcher, const char *option)
{
    for (size_t i = 1; i < launcher->count; i++) {
        const char *word = launcher->words[i];
        if (!check_starts_with(word, option))
            continue;
        if (word[strlen(option)] == '=')
            return &launcher->words[i];
        if (word[strlen(option)] == '\0' && i + 1 < launcher->count)
            return &launcher->words[i + 1];
    }
    return NULL;
}

/* srun gives its tasks the variables of its list; all, if there is no list or it has ALL in it. */
static void mend_srun(const struct launcher *launcher)
{
    char **word = find_option(launcher, "--export");
    const char *begin = word != NULL && check_starts_with(*word, "--export=") ? "--export=" : "";
    const char *list = word != NULL ? *word + strlen(begin) : getenv("SLURM_EXPORT_ENV");
    const char *mended = list;
    if (list != NULL && !is_listed(list, "ALL", strlen("ALL")))
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
    return real != NULL && strstr(check_base_name(real), "hydra") != NULL;
}

static void see_mpirun(const struct launcher *launcher)
{
    bool hydra = is_hydra(launcher->words[0]);
    for (size_t i = 1; i < launcher->count; i++) {
        const char *word = launcher->words[i];
        if (strcmp(word, "mca_base_env_list") == 0)
            tool_warn("mpirun: mca_base_env_list stands as it is given: it has to name LD_PRELOAD "
                      "and COMPSHIM_*");
        if (hydra && (strcmp(word, "-genvnone") == 0 || strcmp(word, "-genvlist") == 0))
            tool_warn(
                "mpirun: %s keeps LD_PRELOAD from the ranks; use -genvall, or name LD_PRELOAD "
                "and COMPSHIM_*",
                word);
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
    for (size_t i = 1; i < launcher->count; i++)
        if (strcmp(launcher->words[i], "--gloo") == 0)
            tool_warn("horovodrun: gloo is neither MPI nor NCCL: its all-reduces are not caught; "
                      "use --mpi");
    if (launcher->verbose)
        tool_warn("horovodrun: it gives its environment to all ranks");
}

void forward_prepare(char **words, bool verbose)
{
    static const struct {
        const char *name;
        void (*see)(const struct launcher *launcher);
    } known[] = {
        {"srun", mend_srun},
        {"sbatch", see_sbatch},
        {"salloc", see_sbatch},
        {"mpirun", see_mpirun},
        {"mpiexec", see_mpirun},
        {"torchrun", see_torchrun},
        {"horovodrun", see_horovodrun},
    };
    size_t all = 0;
    const size_t count = check_launchers_words(words, &all);
    for (size_t i = 0; i < all && i <= count; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(check_base_name(words[i]), known[k].name) == 0)
                known[k].see(&(struct launcher){words + i, (i < count ? count : all) - i, verbose});
}
