/* SPDX-License-Identifier: Apache-2.0 */
/* compshim run: starts a program with the shim preloaded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* A policy with an error would end the job at its start: it is found before. */
static void check_policy(const struct run_options *chosen)
{
    struct cshim_policy *policy = launch_load_policy(chosen->policy);
    if (chosen->verbose)
        tool_warn("policy: %s", policy->source);
    cshim_policy_free(policy);
}

/* Sets the command's environment. */
static void prepare(const struct run_options *chosen)
{
    char *library = launch_find_library();
    if (!chosen->off || chosen->policy != NULL)
        check_policy(chosen);
    char *libraries = chosen->dlsym ? launch_with_dlsym(library) : tool_copy(library);
    char *preload = launch_preload(libraries, getenv("LD_PRELOAD"));
    char *policy = chosen->policy != NULL ? launch_absolute(chosen->policy) : NULL;
    if (policy != NULL)
        set("COMPSHIM_POLICY", policy, chosen->verbose);
    if (chosen->off)
        set("COMPSHIM", "off", chosen->verbose);
    set("LD_PRELOAD", preload, chosen->verbose);
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
    forward_prepare(argv + first, chosen.verbose);
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
