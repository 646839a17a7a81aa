/* SPDX-License-Identifier: Apache-2.0 */
/* Detects CUDA's buffers on a GPU, for an MPI that accepts them. Calls with such buffers are passed
 * through. Both functions are collective and return an MPI error. */
#ifndef CSHIM_MPI_DEVICE_H
#define CSHIM_MPI_DEVICE_H

#include "shim/mpi/describe.h"

/* Sets cshim_mpi.devices if any rank of the job may pass buffers on a GPU. Called once, at the
 * start. */
int cshim_mpi_device_setup(void);
/* Sets *any to true if a buffer of any rank of the call is on a GPU, otherwise to false. Collective
 * over arguments->comm. Called if cshim_mpi.devices is true. */
int cshim_mpi_device_check(const struct cshim_arguments *arguments, bool *any);

#endif
