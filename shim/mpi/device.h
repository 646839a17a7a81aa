/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on a GPU, for an MPI that takes them: recognised, passed on, never touched. Both
 * functions are collective, and return an MPI error. */
#ifndef CSHIM_MPI_DEVICE_H
#define CSHIM_MPI_DEVICE_H

#include "shim/mpi/describe.h"

/* Finds out whether any rank may have buffers on a GPU. */
int cshim_device_setup(void);
/* Whether any rank's buffers of a call are there, and the call is to be passed on. */
int cshim_device_check(const struct cshim_arguments *arguments, bool *any);

#endif
