/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which ranks have the shim, without a message to any rank. Each rank that has it
 * publishes a name at the job's launcher (MPI_Publish_name), and the other ranks look it up there.
 * A name stays until the launcher ends the job, because a rank that looks late must still find it.
 */
#include "shim/mpi/announce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"

#define NAME_MAX_BYTES 256

/* Makes the name that a rank publishes. All ranks of a job make the same name for it, and another
 * job of the same launcher makes another. */
static void name_of(int rank, char name[NAME_MAX_BYTES])
{
    const char *job = getenv("PMIX_NAMESPACE");
    snprintf(name, NAME_MAX_BYTES, "compshim:%.200s:%d", job != NULL ? job : "", rank);
}

/* Asks Hydra by the line that the library would send, so that the library calls no error handler.
 * None can be set for a while: in MPICH a communicator has no handler until one is set, and then
 * follows that of MPI_COMM_WORLD. No function takes a handler away again. If MPI_COMM_WORLD had
 * one, communicators made of it would keep it when the program sets another. */
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

/* Asks Open MPI, whose errors of these functions belong to no communicator. */
static bool ask_open_mpi(bool publish, const char *name)
{
    char port[MPI_MAX_PORT_NAME] = "here";
    return (publish ? PMPI_Publish_name(name, MPI_INFO_NULL, port)
                    : PMPI_Lookup_name(name, MPI_INFO_NULL, port)) == MPI_SUCCESS;
}

/* Open MPI's mpirun keeps names, and so does Hydra, which starts the ranks of MPICH and Intel MPI.
 * Slurm's srun keeps none, and Open MPI then tells the user at length that a function is not
 * supported. */
static bool ask(bool publish, int rank)
{
    char name[NAME_MAX_BYTES];
    MPI_Errhandler handlers[2];
    name_of(rank, name);
    if (cshim_mpi_silence(handlers)) {
        const bool known = getenv("OMPI_COMM_WORLD_SIZE") != NULL && ask_open_mpi(publish, name);
        cshim_mpi_speak(handlers);
        return known;
    }
    const char *connection = getenv("MPI_LOCALNRANKS") != NULL ? getenv("PMI_FD") : NULL;
    return connection != NULL &&
           ask_hydra(atoi(connection), publish ? "publish_name" : "lookup_name", name);
}

bool cshim_announce(void)
{
    return ask(true, cshim_job.rank);
}

bool cshim_announced(int rank)
{
    return ask(false, rank);
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
