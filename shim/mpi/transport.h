/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's transport (shim/host/transport.h) over MPI: messages on the carrier's
 * communicator (shim/mpi/carrier.h), collectives on the communicators of the nodes and of the
 * program. */
#ifndef CSHIM_MPI_TRANSPORT_H
#define CSHIM_MPI_TRANSPORT_H

#include "shim/mpi/communicator.h"

extern const struct cshim_transport cshim_mpi_transport;
/* Makes the operations that add 16-bit floats. Returns an MPI error. */
int cshim_mpi_transport_setup(void);
/* Frees the operations that cshim_mpi_transport_setup() has made. */
void cshim_mpi_transport_teardown(void);

#endif
