/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

static bool verbose; /* also prints what each launcher does by itself */

/* Returns the comma-separated names in `list`, followed by those of the other variables that are
 * set and that all ranks need (cshim_is_forwarded). */
static const char *add_ours(const char *list)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (cshim_is_forwarded(*entry) && !tool_is_listed(list, ',', *entry, length))
            list = tool_format("%s%s%.*s", list, *list != '\0' ? "," : "", (int)length, *entry);
    }
    return list;
}

/* Returns the word with the value of --export among a launcher's words, the first of which is its
 * own name: "--export=VALUE", or the word after "--export". NULL if the option is not given. */
static char **find_export(char **words, char *const *end)
{
    for (char **word = words + 1; word < end; word++)
        if (tool_starts_with(*word, "--export="))
            return word;
        else if (strcmp(*word, "--export") == 0 && word + 1 < end)
            return word + 1;
    return NULL;
}

/* Adds LD_PRELOAD and COMPSHIM_* to the list of variables that srun passes to its tasks. Without a
 * list, or with ALL in it, srun passes all variables. */
static void fix_srun(char **words, char *const *end)
{
    char **word = find_export(words, end);
    const char *variable =
        getenv("SRUN_EXPORT_ENV") != NULL ? "SRUN_EXPORT_ENV" : "SLURM_EXPORT_ENV";
    const char *begin = word != NULL && tool_starts_with(*word, "--export=") ? "--export=" : "";
    const char *list = word != NULL ? *word + strlen(begin) : getenv(variable);
    const char *changed = list;
    if (list != NULL && !tool_is_listed(list, ',', "ALL", strlen("ALL")))
        changed = add_ours(strcmp(list, "NONE") != 0 ? list : "");
    if (list == NULL || strcmp(changed, list) == 0) {
        if (verbose)
            warnx("srun: LD_PRELOAD and COMPSHIM_* are passed to all tasks");
        return;
    }
    if (word != NULL)
        *word = tool_format("%s%s", begin, changed);
    else
        tool_set_variable(variable, changed, false);
    warnx("srun: %s is changed to %s, so that the library reaches the tasks",
          word != NULL ? "--export" : variable, changed);
}

/* Only warns: it is not known how the batch script handles its environment. */
static void warn_sbatch(char **words, char *const *end)
{
    char **word = find_export(words, end);
    const char *list = word != NULL ? *word : getenv("SBATCH_EXPORT");
    if (list != NULL && tool_starts_with(list, "--export="))
        list += strlen("--export=");
    if (list != NULL && !tool_is_listed(list, ',', "ALL", 3) &&
        !tool_is_listed(list, ',', "LD_PRELOAD", strlen("LD_PRELOAD")))
        warnx("sbatch: %s keeps LD_PRELOAD from the script; let the script start the program by "
              "compshim run",
              word != NULL ? "--export" : "SBATCH_EXPORT");
    else if (verbose)
        warnx("sbatch: LD_PRELOAD and COMPSHIM_* are passed to the script and its programs");
}

/* Returns true if a launcher is Hydra: MPICH's mpirun is a link to mpiexec.hydra. */
static bool is_hydra(const char *name)
{
    struct check_program program;
    if (check_program_find(&program, name) != NULL)
        return false;
    const char *real = realpath(program.scripts > 0 ? program.script_paths[0] : program.path, NULL);
    return real != NULL && strstr(basename(real), "hydra") != NULL;
}

static void warn_mpirun(char **words, char *const *end)
{
    bool hydra = is_hydra(words[0]);
    for (char **word = words + 1; word < end; word++) {
        if (strcmp(*word, "mca_base_env_list") == 0)
            warnx("mpirun: mca_base_env_list is left as given: it must name LD_PRELOAD and "
                  "COMPSHIM_*");
        if (hydra && (strcmp(*word, "-genvnone") == 0 || strcmp(*word, "-genvlist") == 0))
            warnx("mpirun: %s keeps LD_PRELOAD from the ranks; use -genvall, or name LD_PRELOAD "
                  "and COMPSHIM_*",
                  *word);
    }
    if (verbose)
        warnx(hydra ? "mpirun: Hydra passes its environment to all ranks"
                    : "mpirun: the library has Open MPI forward LD_PRELOAD and COMPSHIM_* to "
                      "all nodes, unless its options or files say what is forwarded");
}

static void warn_horovodrun(char **words, char *const *end)
{
    for (char **word = words + 1; word < end; word++)
        if (strcmp(*word, "--gloo") == 0)
            warnx("horovodrun: Horovod has a gloo of its own, which it hides: its all-reduces are "
                  "not caught; use --mpi");
}

/* Returns a list of LD_PRELOAD and the shim's variables, separated by `separator`; each as
 * `before`, name, `between`, value, `after`; for text that is inside single quotes of a shell.
 * `is_json`: the values are parts of JSON strings. Without COMPSHIM_RUN, which is for processes of
 * this host. */
static const char *list_ours(const char *separator, const char *before, const char *between,
                             const char *after, bool is_json)
{
    const char *list = "";
    for (char **entry = environ; *entry != NULL; entry++) {
        const int length = (int)strcspn(*entry, "=");
        const char *value = *entry + length + ((*entry)[length] == '=');
        if (!cshim_is_forwarded(*entry) || tool_starts_with(*entry, CSHIM_PRESENCE_VARIABLE "="))
            continue;
        if (is_json)
            value = tool_replace(tool_replace(value, "\\", "\\\\"), "\"", "\\\"");
        list = tool_format("%s%s%s%.*s%s%s%s", list, *list != '\0' ? separator : "", before, length,
                           *entry, between, tool_replace(value, "'", "'\\''"), after);
    }
    return list;
}

/* Returns DeepSpeed's file of variables: in the user's or the working folder, unless absolute. */
static const char *deepspeed_file(void)
{
    const char *name = getenv("DS_ENV_FILE");
    return name != NULL ? name : ".deepspeed_env";
}

/* Returns true if one of DeepSpeed's files of variables names LD_PRELOAD. */
static bool has_deepspeed_variables(void)
{
    const char *home = getenv("HOME"), *name = deepspeed_file();
    const char *const folders[] = {home != NULL ? home : "", "."};
    char line[4096];
    bool is_named = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *path = *name == '/' ? name : tool_format("%s/%s", folders[i], name);
        FILE *file = tool_is_regular(path) ? fopen(path, "re") : NULL;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            is_named |= tool_starts_with(line, "LD_PRELOAD=");
        if (file != NULL)
            fclose(file);
    }
    return is_named;
}

/* Warns if DeepSpeed does not pass LD_PRELOAD to other hosts: it passes the variables of some
 * libraries and those in its own file. */
static void warn_deepspeed(char **words, char *const *end)
{
    if (!check_leads_away(words)) {
        if (verbose)
            warnx("deepspeed: the workers of this host inherit the environment");
        return;
    }
    (void)end;
    if (!has_deepspeed_variables())
        warnx("deepspeed: it does not pass LD_PRELOAD and COMPSHIM_* to other hosts; add them to "
              "its file: printf '%%s\\n' %s >>%s%s",
              list_ours(" ", "'", "=", "'", false), *deepspeed_file() == '/' ? "" : "~/",
              deepspeed_file());
}

/* Warns that a Ray job does not have this environment: workers have that of "ray start" on their
 * node. */
static void warn_ray(char **words, char *const *end)
{
    if (words + 1 < end && strcmp(words[1], "job") == 0)
        warnx("ray: a job has the environment of ray start on its node: submit it with "
              "--runtime-env-json '{\"env_vars\": {%s}}'",
              list_ours(", ", "\"", "\": \"", "\"", true));
    else if (verbose)
        warnx("ray: the workers of ray start on this node inherit the environment");
}

static void warn_sudo(char **words, char *const *end)
{
    (void)end;
    warnx("%s: it keeps LD_PRELOAD from the program; put compshim run after its options",
          basename(*words));
}

static void warn_container(char **words, char *const *end)
{
    (void)end;
    warnx("%s: a container has an environment and files of its own: start the program inside it by "
          "compshim run",
          basename(*words));
}

/* Warns if env removes LD_PRELOAD from the program's environment. */
static void warn_env(char **words, char *const *end)
{
    bool is_removed = false;
    for (char **word = words + 1; word < end && (**word == '-' || strchr(*word, '=') != NULL);
         word++) {
        if (tool_is_listed("-u -C", ' ', *word, strlen(*word)) && word + 1 < end)
            word++; /* the option's argument */
        if (tool_is_listed("-i - --ignore-environment LD_PRELOAD -uLD_PRELOAD", ' ', *word,
                           strlen(*word)) ||
            strcmp(*word, "--unset=LD_PRELOAD") == 0)
            is_removed = true;
        else if (tool_starts_with(*word, "LD_PRELOAD="))
            is_removed = false;
    }
    if (is_removed)
        warnx("env: it keeps LD_PRELOAD from the program; put compshim run after env's options");
}

void run_instruct_launchers(char **words, bool is_verbose)
{
    static const struct {
        const char *names;
        void (*warn)(char **words, char *const *end);
        const char *note; /* printed if verbose */
    } known[] = {
        {"srun", fix_srun, NULL},
        {"sbatch", warn_sbatch, NULL},
        {"mpirun mpiexec", warn_mpirun, NULL},
        {"torchrun", NULL,
         "torchrun: the workers of this node inherit the environment; start torchrun by compshim "
         "run on each node"},
        {"accelerate", NULL,
         "accelerate: the workers of this node inherit the environment; start it by compshim run "
         "on "
         "each node"},
        {"deepspeed", warn_deepspeed, NULL},
        {"ray", warn_ray, NULL},
        {"sudo su", warn_sudo, NULL},
        {"docker podman nerdctl kubectl", warn_container, NULL},
        {"env", warn_env, NULL},
        {"horovodrun", warn_horovodrun, "horovodrun: it passes its environment to all ranks"},
    };
    char **program = check_behind_launchers(words);
    char **end = program;
    verbose = is_verbose;
    while (*end != NULL)
        end++;
    for (char **word = words; word <= program && *word != NULL; word++) {
        /* -p, -v and --verbose may be the launcher's own */
        if (tool_is_listed("--policy --off --dlsym", ' ', *word, strcspn(*word, "=")))
            warnx("%s is passed to %s: put options of compshim run before the command", *word,
                  *words);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (tool_is_program(*word, known[i].names)) {
                if (known[i].warn != NULL)
                    known[i].warn(word, word < program ? program : end);
                if (known[i].note != NULL && verbose)
                    warnx("%s", known[i].note);
            }
    }
}
