/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement with a job that the program spawns (MPI_Comm_spawn), so that calls on the communicator
 * merged from both jobs (MPI_Intercomm_merge) and on its duplicates are compressed. Open MPI only:
 * it gives spawned processes variables of the spawning one. With other libraries a job would have
 * to send a message first, which a program without the shim might receive. */
#ifndef CSHIM_MPI_SPAWN_H
#define CSHIM_MPI_SPAWN_H

#include "shim/mpi/communicator.h"

/* Finds out whether this job was spawned by a job with the shim. Collective over MPI_COMM_WORLD.
 * Called once, when everything else in cshim_mpi is set. Ends the job if there is no memory.
 * Returns an MPI error. */
int cshim_spawn_setup(void);
void cshim_spawn_teardown(void);

/* Have the contracts of MPI's functions. Thread-safe; those that spawn change the environment. */
int cshim_comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root,
                     MPI_Comm comm, MPI_Comm *intercomm, int errcodes[]);
int cshim_comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                              const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                              int errcodes[]);
int cshim_intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *merged);

#endif
