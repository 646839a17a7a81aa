/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers on a GPU, for an MPI that takes them: calls with such buffers are passed through. */
#ifndef CSHIM_MPI_DEVICE_H
#define CSHIM_MPI_DEVICE_H

#include "shim/mpi/describe.h"

/* Finds out whether any rank of the job may have such buffers. Collective, as the next one. Both
 * return an MPI error. */
int cshim_mpi_device_setup(void);
/* Sets *any if some rank's buffers of a call are on a GPU. */
int cshim_mpi_device_check(const struct cshim_arguments *arguments, bool *any);

#endif
