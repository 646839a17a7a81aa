/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which ranks have the shim, without a message to any rank. Each rank that has it
 * publishes a name at the job's launcher (MPI_Publish_name), and the other ranks look it up there.
 * A name stays until the launcher ends the job, because a rank that looks late must still find it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/mpi/job.h"

#define NAME_MAX_BYTES 256

/* Makes the name that a rank publishes. All ranks of a job make the same name for it, and another
 * job of the same launcher makes another. */
static void name_of(int rank, char name[NAME_MAX_BYTES])
{
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(name, NAME_MAX_BYTES, "compshim:%.200s:%d", job != NULL ? job : "", rank);
}

static int noted; /* the last error that the handler below was called with */

static void note(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    noted = *code;
}

/* Calls a function for the name of a rank, without the effect that an error has by default. An
 * error of such a function belongs to no communicator: the library calls the handler of
 * MPI_COMM_SELF, or before MPI 4 that of MPI_COMM_WORLD, and both end the job by default.
 * MPI_ERRORS_RETURN would not do, because Intel MPI's library for the standard ABI ends the job all
 * the same. The status alone would not do, because MPICH 5 returns MPI_SUCCESS after it has called
 * a handler. */
static int quietly(int (*function)(const char *, MPI_Info, char *), int rank, char *port)
{
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler own, handlers[2];
    char name[NAME_MAX_BYTES];
    name_of(rank, name);
    PMPI_Comm_create_errhandler(note, &own);
    for (int i = 0; i < 2; i++) {
        PMPI_Comm_get_errhandler(comms[i], &handlers[i]);
        PMPI_Comm_set_errhandler(comms[i], own);
    }
    noted = MPI_SUCCESS;
    const int status = function(name, MPI_INFO_NULL, port);
    for (int i = 0; i < 2; i++) {
        PMPI_Comm_set_errhandler(comms[i], handlers[i]);
        PMPI_Errhandler_free(&handlers[i]);
    }
    PMPI_Errhandler_free(&own);
    return status != MPI_SUCCESS ? status : noted;
}

static int publish(const char *name, MPI_Info info, char *port)
{
    return PMPI_Publish_name(name, info, port);
}

static int look_up(const char *name, MPI_Info info, char *port)
{
    return PMPI_Lookup_name(name, info, port);
}

/* Whether names may be published. Slurm's srun keeps none, and Open MPI then tells the user at
 * length that a function is not supported; Open MPI's own mpirun keeps them. */
static bool launcher_keeps_names(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    PMPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) != 0 || getenv("OMPI_COMM_WORLD_SIZE") != NULL;
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
    useconds_t pause = 1000; /* grows, because all ranks of a large job ask one launcher */
    while (!cshim_announced(rank)) {
        if (cshim_seconds() > deadline)
            return false;
        usleep(pause);
        pause = pause < 100000 ? 2 * pause : pause;
    }
    return true;
}
