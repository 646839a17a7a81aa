/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the ranks of a node read each other's scratch (shared memory), so that long messages between
 * them need not contain the encoded elements. */
#ifndef CSHIM_MPI_SHARE_H
#define CSHIM_MPI_SHARE_H

#include "shim/mpi/communicator.h"

/* Fills cshim_mpi.world.scratch_of, if this node has several ranks, all can attach each other's
 * scratch, and the policy compresses sums; otherwise leaves it NULL. `node`: communicator of this
 * rank's node. Collective over `node`. Ends the job if there is no memory. */
void cshim_share_setup(MPI_Comm node);
/* Detaches the other ranks' segments, stops sharing this rank's, and sets
 * cshim_mpi.world.scratch_of to NULL. */
void cshim_share_teardown(void);

#endif
