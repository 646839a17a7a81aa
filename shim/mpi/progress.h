/* SPDX-License-Identifier: Apache-2.0 */
/* Has a function of ours run whenever the MPI library makes progress, where the library lets it. */
#ifndef CSHIM_MPI_PROGRESS_H
#define CSHIM_MPI_PROGRESS_H

#include "shim/mpi/nonblocking.h"

/* Finds the functions of the library that this takes. Returns false if it has none. */
bool cshim_progress_find(void);
/* Has the library call one of two functions: advance, which returns how much was done, until it is
 * removed; or advance_until_idle, until that returns true, and not again before it is added anew.
 */
void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void));
void cshim_progress_remove(int (*advance)(void));
/* Has the library make progress. The two functions must not call this. */
void cshim_progress_make(void);
/* Have the contracts of MPI_Test and MPI_Testsome, and may be called in the two functions. */
int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status);
int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[]);

#endif
