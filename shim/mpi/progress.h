/* SPDX-License-Identifier: Apache-2.0 */
/* Registers a callback that the MPI library runs whenever it makes progress, as it does in many MPI
 * calls. Needs functions of Open MPI, or of MPICH from 4.3 on. */
#ifndef CSHIM_MPI_PROGRESS_H
#define CSHIM_MPI_PROGRESS_H

#include "shim/mpi/nonblocking.h"

/* Finds the library's functions. Returns false if any is not found; then no other function here may
 * be called. */
bool cshim_progress_find(void);
/* Registers one of two callbacks. Open MPI calls `advance`, which returns the number of completed
 * events, until it is removed. MPICH calls `advance_until_idle` until that returns true; it must
 * then be added again. */
void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void));
/* Removes `advance` from Open MPI's callbacks. Does nothing in MPICH. */
void cshim_progress_remove(int (*advance)(void));
/* Lets MPICH make progress; does nothing in Open MPI, where cshim_progress_test() does it. Must not
 * be called by the callbacks. */
void cshim_progress_make(void);
/* Returns true if a request is complete, also with an error; calls no error handler. In Open MPI it
 * makes progress. */
bool cshim_progress_is_complete(MPI_Request request);
/* Do the same as MPI_Test and MPI_Testsome, but may be called by the callbacks, too, and make no
 * progress in MPICH. `statuses` must not be MPI_STATUSES_IGNORE. */
int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status);
int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[]);

#endif
