/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have the shim, as the job's launcher knows them. */
#ifndef CSHIM_MPI_ANNOUNCE_H
#define CSHIM_MPI_ANNOUNCE_H

#include "shim/mpi/job.h"

/* Announces that this rank has the shim. Returns false if the launcher keeps no names; then nothing
 * is known of any rank. */
bool cshim_announce(void);
/* Returns true if a rank has announced itself. */
bool cshim_announced(int rank);
/* Waits until a rank has announced itself, or until the deadline (cshim_seconds). Returns true if
 * it has. */
bool cshim_await_announcement(int rank, double deadline);

#endif
