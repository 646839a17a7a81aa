/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have the shim, as the job's launcher knows it. */
#ifndef CSHIM_MPI_ANNOUNCE_H
#define CSHIM_MPI_ANNOUNCE_H

#include <stdbool.h>

/* This rank has the shim. Returns false if the launcher keeps no names; then nothing is known of
 * any rank. */
bool cshim_announce(void);
/* Whether a rank has announced itself; await waits for it until the deadline (cshim_seconds). */
bool cshim_announced(int rank);
bool cshim_await_announcement(int rank, double deadline);

#endif
