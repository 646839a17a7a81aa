/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which ranks have the shim without sending them a message: by the name service of the
 * job's launcher. Used by the agreement (agree.c) in MPI_Init, by one thread. */
#ifndef CSHIM_MPI_ANNOUNCE_H
#define CSHIM_MPI_ANNOUNCE_H

#include "shim/mpi/job.h"

/* Publishes that this rank has the shim. Returns false if that fails. Without a name service it
 * fails, and cshim_announced() returns false for all ranks. */
bool cshim_announce(void);
/* Returns true if `rank` has announced itself. */
bool cshim_announced(int rank);
/* Waits until `rank` has announced itself, or until `deadline` (on the clock of cshim_seconds()).
 * Returns true if it has. */
bool cshim_await_announcement(int rank, double deadline);

#endif
