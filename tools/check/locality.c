/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a command line stays on this host. */
#include <stdlib.h>
#include <string.h>

#include "tools/check/check.h"
#include "tools/lib/launch.h"

/* Whether a word is a program that starts others on other hosts, in containers, or later. */
static bool leads_away(const char *word)
{
    static const char *const names[] = {
        "srun",    "sbatch", "salloc", "sattach", "qsub", "bsub",        "flux",      "aprun",
        "jsrun",   "lrun",   "ibrun",  "ssh",     "rsh",  "pdsh",        "clush",     "docker",
        "podman",  "ip",     "bwrap",  "kubectl", "ray",  "screen",      "tmux",      "at",
        "nsenter", "batch",  "chroot", "unshare", "prun", "systemd-run", "deepspeed",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(check_base_name(word), names[i]) == 0)
            return true;
    return false;
}

/* Whether a word is a launcher's option that names hosts: of Open MPI, Hydra or Horovod, with one
 * dash or two. */
static bool names_hosts(const char *word)
{
    static const char *const options[] = {"H",
                                          "f",
                                          "host",
                                          "hosts",
                                          "hostfile",
                                          "hostlist",
                                          "rf",
                                          "rankfile",
                                          "app",
                                          "configfile",
                                          "machinefile",
                                          "machines",
                                          "machine-file",
                                          "host-discovery-script",
                                          "dvm-uri",
                                          "hnp",
                                          "ompi-server",
                                          "nnodes",
                                          "default-hostfile"};
    const char *name = word + strspn(word, "-");
    const size_t length = strcspn(name, "=");
    for (size_t i = 0; *word == '-' && i < sizeof options / sizeof *options; i++)
        if (strlen(options[i]) == length && strncmp(name, options[i], length) == 0)
            return true;
    return false;
}

/* Variables of batch systems, and those that name hosts for a launcher without such options. */
static bool environment_names_hosts(void)
{
    static const char *const names[] = {"SLURM_JOB_ID",
                                        "SLURM_JOBID",
                                        "PBS_NODEFILE",
                                        "PBS_JOBID",
                                        "LSB_JOBID",
                                        "PE_HOSTFILE",
                                        "COBALT_NODEFILE",
                                        "FLUX_URI",
                                        "OAR_NODEFILE",
                                        "HYDRA_HOST_FILE",
                                        "OMPI_MCA_orte_default_hostfile",
                                        "PRTE_MCA_prte_default_hostfile"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return true;
    return false;
}

bool locality_is_certain(char **words)
{
    size_t all = 0;
    size_t count = check_launchers_words(words, &all);
    const char *launcher = check_base_name(words[0]);
    /* Parts of a command behind a colon have options of their own. horovodrun and torchrun count as
     * the program here, but their options follow them. */
    bool has_parts = strcmp(launcher, "horovodrun") == 0 || strcmp(launcher, "torchrun") == 0;
    for (size_t i = 0; i < all; i++)
        has_parts |= strcmp(words[i], ":") == 0;
    count = has_parts ? all : count;
    for (size_t i = 0; i <= count && words[i] != NULL; i++)
        if (leads_away(words[i]) || (i < count && names_hosts(words[i])))
            return false;
    return !environment_names_hosts();
}
