/* SPDX-License-Identifier: Apache-2.0 */
/* Runs exchanges in the background, whenever the MPI library makes progress. To start a call:
 *
 *     tag = cshim_nonblocking_tag();
 *     cshim_nonblocking_receive(tag, false, &request);      the program's request
 *     cshim_nonblocking_start(&arguments, &plan, comm, tag, request);
 *
 * All functions except setup and teardown are thread-safe. */
#ifndef CSHIM_MPI_NONBLOCKING_H
#define CSHIM_MPI_NONBLOCKING_H

#include "shim/mpi/describe.h"

/* Finds out whether all ranks can advance exchanges in the background (cshim_mpi.nonblocking), and
 * prepares MPI_COMM_WORLD if it has several ranks; does nothing if no all-reduce can be compressed,
 * and with COMPSHIM=observe. Collective. Returns false if the library reports an error. */
bool cshim_nonblocking_setup(void);
/* Waits for active calls, at most 10 s, and warns if any are left; then stops the callbacks. */
void cshim_nonblocking_teardown(void);

/* Returns a tag that no active call has, unless as many calls are active as there are tags. */
int cshim_nonblocking_tag(void);
/* Makes the program's request: a receive with `tag` on cshim_mpi.alone, started unless
 * `persistent`. Returns an MPI error. */
int cshim_nonblocking_receive(int tag, bool persistent, MPI_Request *request);
/* Starts a planned call, whose receive must be active; completes that receive when the call ends.
 * The communicator must be prepared, or cshim_comm_begin_preparing() called. Copies the arguments
 * and the plan. Ends the job if there is no memory. Returns an MPI error. */
int cshim_nonblocking_start(const struct cshim_arguments *arguments, const struct cshim_plan *plan,
                            struct cshim_comm *comm, int tag, MPI_Request request);
/* Waits until no nonblocking call with this state is active; calls of persistent requests have
 * states of their own. Returns at once within a progress callback: a library may free a
 * communicator there, when the last operation on it, the reduction of a sample, completes. */
void cshim_nonblocking_drain(struct cshim_comm *comm);
/* Prepares a communicator for a blocking call, or a persistent request: calls
 * cshim_nonblocking_drain(), then cshim_comm_prepare(). Returns an MPI error. */
int cshim_nonblocking_prepare(MPI_Comm comm, struct cshim_comm *state);
/* Returns true if an active call has this request or this tag, with the program's communicator in
 * *comm; otherwise *comm is undefined. No call has MPI_REQUEST_NULL, or the tag -1. */
bool cshim_nonblocking_has(MPI_Request request, int tag, MPI_Comm *comm);

#endif
