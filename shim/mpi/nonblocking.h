/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges that are carried on whenever the library makes progress. */
#ifndef CSHIM_MPI_NONBLOCKING_H
#define CSHIM_MPI_NONBLOCKING_H

#include "shim/mpi/call.h"

/* Setup finds out whether all ranks can do that, and prepares the world; returns false if the
 * library refuses. Teardown waits for what is still under way, but not for ever. Both are
 * collective. */
bool cshim_nonblocking_setup(void);
void cshim_nonblocking_teardown(void);

/* Starts a planned call of a prepared communicator. Its end completes a receive of this tag, made
 * by cshim_nonblocking_receive (and started, if it is persistent). Return an MPI error. */
int cshim_nonblocking_tag(void);
int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request);
int cshim_nonblocking_start(const struct cshim_arguments *arguments, const struct cshim_plan *plan,
                            struct cshim_comm *comm, int tag, MPI_Request request);
/* Waits until none of a communicator's calls is under way. */
void cshim_nonblocking_drain(struct cshim_comm *comm);
/* Whether the request is that of a call under way; sets the program's communicator then. */
bool cshim_nonblocking_has(MPI_Request request, MPI_Comm *comm);

#endif
