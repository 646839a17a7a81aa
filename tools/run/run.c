/* SPDX-License-Identifier: Apache-2.0 */
/* compshim run: starts a program with the shim preloaded, and makes launchers pass the preload on.
 *
 * If it is certain that all processes of the command run on this host, the shim is not off, and a
 * socket can be opened, the tool stays as the command's parent (watch.c): it forwards signals,
 * waits for the end, and learns by a datagram that a process uses MPI, NCCL or gloo through the
 * preloaded library. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"
#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

static const char *policy_file;
static bool off, with_dlsym, verbose;

static const struct tool_option options[] = {
    {"policy", 'p', TOOL_TEXT, &policy_file, "FILE",
     "use this policy.ini, or a built-in @policy (it is checked before anything starts)"},
    {"off", 0, TOOL_FLAG, &off, NULL, "preload the shim but let it compress nothing"},
    {"dlsym", 0, TOOL_FLAG, &with_dlsym, NULL,
     "also catch MPI and NCCL functions that the program fetches with dlsym"},
    {"verbose", 'v', TOOL_FLAG, &verbose, NULL,
     "print to stderr what is set, what was found, and how it reaches the ranks"},
    {0},
};

/* Makes a relative name in COMPSHIM_POLICY absolute, because the program may change its folder. */
static void make_policy_absolute(void)
{
    const char *policy = getenv("COMPSHIM_POLICY");
    const bool is_relative = policy != NULL && *policy != '/' && !cshim_policy_is_named(policy);
    const char *absolute = is_relative ? realpath(policy, NULL) : NULL;
    if (absolute != NULL)
        tool_set_variable("COMPSHIM_POLICY", absolute, verbose);
}

/* Allows the address sanitizer to start after a preloaded object, unless the user has set that
 * option. */
static void permit_order(void)
{
    const char *options = getenv("ASAN_OPTIONS");
    const bool is_empty = options == NULL || *options == '\0';
    if (is_empty || strstr(options, "verify_asan_link_order") == NULL)
        tool_set_variable(
            "ASAN_OPTIONS",
            tool_format("%s%s" CSHIM_ASAN_OPTION, is_empty ? "" : options, is_empty ? "" : ":"),
            verbose);
}

/* Sets the command's environment. */
static void prepare_environment(void)
{
    char *library = launch_find_library();
    if (!off || policy_file != NULL) {
        /* Finds errors in the policy now: they would end the job at its start. */
        const struct cshim_policy *policy = launch_load_policy(policy_file);
        if (verbose)
            warnx("policy: %s", policy->source);
    }
    if (with_dlsym)
        library = launch_with_dlsym(library);
    if (policy_file != NULL)
        tool_set_variable("COMPSHIM_POLICY", launch_name_policy(policy_file), verbose);
    else
        make_policy_absolute();
    if (off)
        tool_set_variable("COMPSHIM", "off", verbose);
    tool_set_variable("LD_PRELOAD", launch_preload(library, getenv("LD_PRELOAD")), verbose);
}

static int run_preloaded(char **words)
{
    if (*words == NULL)
        tool_misuse("no command to run");
    prepare_environment();
    if (check_warn(words, off, verbose))
        permit_order();
    int receiver = !cshim_is_off() && locality_is_certain(words) ? run_open_receiver() : -1;
    run_instruct_launchers(words, verbose);
    if (receiver >= 0)
        return run_watched(words, receiver, with_dlsym);
    execvp(words[0], words);
    run_fail_to_start(words[0], errno);
}

const struct tool_command tool_run = {
    .name = "run",
    .summary = "start a program with the shim preloaded",
    .usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
    .details =
        "The library is in the folder of this tool or in the lib folder of the same prefix. "
        "Libraries "
        "that LD_PRELOAD names already follow it. Without --policy the program looks for its "
        "policy "
        "as compshim-policy(5) says. Warns about a program that the preload cannot reach, and "
        "starts it all the same. After a successful command, warns if no process on this host came "
        "to MPI, NCCL or gloo through the library. Extends srun's --export if it omits the "
        "library; mpirun, torchrun and horovodrun need nothing. --dlsym is for programs that open "
        "MPI or NCCL at run time, as Julia, JAX, vLLM and ctypes do.\n\n  compshim run --policy "
        "policy.ini -- mpirun -n 4 ./train\n  compshim run --policy policy.ini -- torchrun "
        "--nproc_per_node 2 train.py\n",
    .takes_command = true,
    .options = options,
    .run = run_preloaded,
};
