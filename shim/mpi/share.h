/* SPDX-License-Identifier: Apache-2.0 */
/* Has the ranks of a node read each other's scratch, so that what one has encoded reaches the
 * others without a copy. */
#ifndef CSHIM_MPI_SHARE_H
#define CSHIM_MPI_SHARE_H

#include "shim/mpi/communicator.h"

/* Fills cshim_mpi.scratch_of where sums may be compressed and all ranks of this node can read each
 * other's scratch. Collective among them, as is teardown. */
void cshim_share_setup(MPI_Comm node);
void cshim_share_teardown(void);

#endif
