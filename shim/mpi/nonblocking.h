/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges that are carried on whenever the library makes progress. */
#ifndef CSHIM_MPI_NONBLOCKING_H
#define CSHIM_MPI_NONBLOCKING_H

#include "shim/mpi/describe.h"

/* Setup finds out whether all ranks can do that, and prepares the world. It returns false if the
 * library refuses. Teardown waits for calls that are still under way, but not for ever. Both are
 * collective. */
bool cshim_nonblocking_setup(void);
void cshim_nonblocking_teardown(void);

/* Starts a planned call of a communicator, which it begins to prepare if that is not done. When the
 * call ends, it completes the receive with this tag. cshim_nonblocking_receive has made that
 * receive, and a persistent one has been started. Both return an MPI error. The tag is one that no
 * call under way has. */
int cshim_nonblocking_tag(void);
int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request);
int cshim_nonblocking_start(const struct cshim_arguments *arguments, const struct cshim_plan *plan,
                            struct cshim_comm *comm, int tag, MPI_Request request);
/* Waits until none of a communicator's calls is under way; but not where the last of them ends: a
 * library may keep a communicator that the program has freed until its sample is summed. */
void cshim_nonblocking_drain(struct cshim_comm *comm);
/* Prepares a communicator for a call that may wait, once none of its calls is under way. Returns an
 * MPI error. */
int cshim_nonblocking_prepare(MPI_Comm comm, struct cshim_comm *state);
/* Whether the request is that of a call under way; sets the program's communicator then. */
bool cshim_nonblocking_has(MPI_Request request, MPI_Comm *comm);

#endif
