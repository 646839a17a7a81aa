/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the shim, without a message to any rank: each rank publishes a name at the job's launcher
 * (MPI_Publish_name), where the others can look it up. A rank that lacks the shim publishes nothing
 * and is never spoken to. Names stay until the launcher ends the job: a rank that looks late must
 * still find who has been there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/mpi/internal.h"

#define NAME_MAX_BYTES 256

/* The same on all ranks of a job, and different from other jobs of the same launcher. */
static void name_of(int rank, char name[NAME_MAX_BYTES])
{
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(name, NAME_MAX_BYTES, "compshim:%.200s:%d", job != NULL ? job : "", rank);
}

/* Errors of these functions go to MPI_COMM_WORLD's handler, which ends the job by default. */
static int quietly(int (*function)(const char *, MPI_Info, char *), int rank, char *port)
{
    char name[NAME_MAX_BYTES];
    MPI_Errhandler handler;
    name_of(rank, name);
    PMPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int status = function(name, MPI_INFO_NULL, port);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    PMPI_Errhandler_free(&handler);
    return status;
}

static int publish(const char *name, MPI_Info info, char *port)
{
    return PMPI_Publish_name(name, info, port);
}

static int look_up(const char *name, MPI_Info info, char *port)
{
    return PMPI_Lookup_name(name, info, port);
}

/* Open MPI's mpirun keeps names. Slurm's srun does not, and there Open MPI tells the user at length
 * that a function is not supported. */
static bool launcher_keeps_names(void)
{
#ifdef OPEN_MPI
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
#else
    return true;
#endif
}

bool cshim_announce(void)
{
    char port[MPI_MAX_PORT_NAME] = "here";
    return launcher_keeps_names() && quietly(publish, cshim_job.rank, port) == MPI_SUCCESS;
}

bool cshim_announced(int rank)
{
    char port[MPI_MAX_PORT_NAME] = "";
    return quietly(look_up, rank, port) == MPI_SUCCESS;
}

bool cshim_await_announcement(int rank, double deadline)
{
    useconds_t pause = 1000; /* longer each time: a large job asks one launcher */
    while (!cshim_announced(rank)) {
        if (cshim_seconds() > deadline)
            return false;
        usleep(pause);
        pause = pause < 100000 ? 2 * pause : pause;
    }
    return true;
}
