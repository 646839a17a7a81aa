/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank with the shim publishes a name at the job's launcher, as MPI_Publish_name does. Other
 * ranks look the name up. Names stay published until the launcher ends the job, because a rank that
 * looks late must still find them. */
#include "shim/mpi/announce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"

#define NAME_MAX_BYTES 256

/* Makes the name that `rank` publishes. It contains the job's id if PMIx gives one, because a
 * launcher may run several jobs. */
static void name_of(int rank, char name[NAME_MAX_BYTES])
{
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(name, NAME_MAX_BYTES, "compshim:%.200s:%d", job != NULL ? job : "", rank);
}

/* Sends Hydra the PMI request that MPICH would send. Returns true if the answer is success. MPICH's
 * own function is not used, because it calls the program's error handler if the name is unknown,
 * and no temporary handler can be set: an MPICH communicator without a handler uses that of
 * MPI_COMM_WORLD, and once set a handler cannot be removed. If we set one on MPI_COMM_WORLD,
 * communicators made from it would keep it when the program sets another. */
static bool ask_hydra(int hydra, const char *question, const char *name)
{
    char answer[1024] = "";
    size_t length = 0;
    dprintf(hydra, "cmd=%s service=%s port=here\n", question, name);
    while (length < sizeof answer - 1 && strchr(answer, '\n') == NULL) {
        const ssize_t got = read(hydra, answer + length, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        length += got == 1;
    }
    return strstr(answer, " rc=0") != NULL;
}

/* Publishes or looks up a name with Open MPI. Returns true on success. The caller has made Open MPI
 * return errors. */
static bool ask_open_mpi(bool publish, const char *name)
{
    char port[MPI_MAX_PORT_NAME] = "here";
    return (publish ? PMPI_Publish_name(name, MPI_INFO_NULL, port)
                    : PMPI_Lookup_name(name, MPI_INFO_NULL, port)) == MPI_SUCCESS;
}

/* Publishes a rank's name at the launcher, or looks it up. Returns true on success. Two launchers
 * have a name service: Open MPI's mpirun, and Hydra for MPICH and Intel MPI. Does not ask Open MPI
 * under Slurm's srun, where it would print a long help text. */
static bool use_names(bool publish, int rank)
{
    char name[NAME_MAX_BYTES];
    MPI_Errhandler handlers[2];
    name_of(rank, name);
    if (cshim_mpi_return_errors(handlers)) {
        const bool known = getenv("OMPI_COMM_WORLD_SIZE") != NULL && ask_open_mpi(publish, name);
        cshim_mpi_restore_handlers(handlers);
        return known;
    }
    const char *connection = getenv("MPI_LOCALNRANKS") != NULL ? getenv("PMI_FD") : NULL;
    return connection != NULL &&
           ask_hydra(atoi(connection), publish ? "publish_name" : "lookup_name", name);
}

bool cshim_announce(void)
{
    return use_names(true, cshim_job.rank);
}

bool cshim_announced(int rank)
{
    return use_names(false, rank);
}

bool cshim_await_announcement(int rank, double deadline)
{
    useconds_t pause = 1000; /* doubles up to 0.128 s: all ranks of a job ask one launcher */
    while (!cshim_announced(rank)) {
        if (cshim_seconds() > deadline)
            return false;
        usleep(pause);
        pause = pause < 100000 ? 2 * pause : pause;
    }
    return true;
}
