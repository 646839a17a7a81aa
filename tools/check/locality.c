/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a command line stays on this host. */
#include <string.h>
#include <unistd.h>

#include "tools/check/check.h"
#include "tools/lib/tool.h"

/* Programs that start others on other hosts, in containers, or later. */
static const char leading_away[] =
    "srun sbatch salloc sattach qsub bsub flux aprun jsrun lrun ibrun prun ssh rsh pdsh clush "
    "docker podman ip bwrap kubectl ray screen tmux at batch nsenter chroot unshare systemd-run "
    "deepspeed";

/* Launchers' options that name hosts: of Open MPI, Hydra or Horovod, with one dash or two. */
static const char options_with_hosts[] =
    "H f host hosts hostfile hostlist rf rankfile app configfile machinefile machines machine-file "
    "host-discovery-script dvm-uri hnp ompi-server nnodes default-hostfile";

/* Variables of batch systems, and those that name hosts for a launcher without such options. */
static const char variables_with_hosts[] =
    "SLURM_JOB_ID SLURM_JOBID PBS_NODEFILE PBS_JOBID LSB_JOBID PE_HOSTFILE COBALT_NODEFILE "
    "FLUX_URI OAR_NODEFILE HYDRA_HOST_FILE OMPI_MCA_orte_default_hostfile "
    "PRTE_MCA_prte_default_hostfile";

static bool names_hosts(const char *word)
{
    const char *name = word + strspn(word, "-");
    return name != word && tool_is_listed(options_with_hosts, ' ', name, strcspn(name, "="));
}

bool locality_is_certain(char **words)
{
    char **last = check_behind_launchers(words);
    char **end = words;
    /* Parts of a command behind a colon have options of their own. horovodrun and torchrun count as
     * the program here, but their options follow them. */
    bool has_parts = tool_is_program(*words, "horovodrun torchrun");
    for (; *end != NULL; end++)
        has_parts |= strcmp(*end, ":") == 0;
    last = has_parts ? end : last;
    for (char **word = words; *word != NULL && word <= last; word++)
        if (tool_is_program(*word, leading_away) || (word < last && names_hosts(*word)))
            return false;
    for (char **entry = environ; *entry != NULL; entry++)
        if (tool_is_listed(variables_with_hosts, ' ', *entry, strcspn(*entry, "=")))
            return false;
    return true;
}
