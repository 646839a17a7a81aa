/* SPDX-License-Identifier: Apache-2.0 */
/* Whether and how the MPI library lets a function of ours run whenever it makes progress. */
#ifndef CSHIM_MPI_PROGRESS_H
#define CSHIM_MPI_PROGRESS_H

#include "shim/mpi/job.h"

/* Looks whether the library lets a function of ours make progress with it, in all its calls. */
bool cshim_progress_find(void);
/* Has the library call one of two functions: advance, which returns how much was done, until it is
 * removed; or advance_until_idle, until that returns true, and not again before it is added anew.
 */
void cshim_progress_add(int (*advance)(void), bool (*advance_until_idle)(void));
void cshim_progress_remove(int (*advance)(void));
/* Has the library make progress; not for use in these functions. */
void cshim_progress_make(void);
/* For use in these functions, with the contracts of MPI_Test and MPI_Testsome. */
int cshim_progress_test(MPI_Request *request, int *done, MPI_Status *status);
int cshim_progress_testsome(int count, MPI_Request requests[], int *ended, int indices[],
                            MPI_Status statuses[]);

#endif
