/* SPDX-License-Identifier: Apache-2.0 */
/* Data-movement collectives: MPI lets ranks describe the same elements by different types, counts
 * and absolute addresses, so a rank may have a reason not to compress that the others cannot know.
 * Before such a call is compressed, its ranks exchange these reasons. */
#ifndef CSHIM_MPI_MOVEMENT_H
#define CSHIM_MPI_MOVEMENT_H

#include "shim/mpi/describe.h"

/* Returns true if the blocks that are not empty are contiguous in rank order; the answer may differ
 * between ranks, because each passes its own displacements. Raises *largest to the largest count,
 * and sets *all to the sum of the counts. */
bool cshim_movement_is_contiguous(const struct cshim_arguments *arguments, const void *counts,
                                  const void *displacements, int ranks, uint64_t *largest,
                                  uint64_t *all);

/* Returns this rank's own reason not to compress the call, or CSHIM_REASON_COMPRESS. `are_alike`:
 * sent and received elements are described alike (begin_data_movement() in collectives.c). */
enum cshim_reason cshim_movement_reason(const struct cshim_arguments *arguments, bool are_alike);

/* Lets the ranks agree on a reason not to compress the call: *reason is this rank's own before, and
 * the agreed one after. The agreed reason is CSHIM_REASON_DTYPE if the ranks have different element
 * types.
 *
 * Sets *agreed to false, without this exchange, if the communicator already excludes compression
 * or, except in an all-to-all with counts, if the call's size or COMPSHIM=observe does: these are
 * equal on all ranks.
 *
 * The sizes of an all-to-all with counts differ between ranks, so its ranks also agree on the
 * largest block, which becomes `arguments->count`. If they agree on a reason, `arguments->count` is
 * in bytes, and the datatype becomes MPI_BYTE. Collective. Returns an MPI error. */
int cshim_movement_agree(struct cshim_arguments *arguments, enum cshim_reason *reason,
                         bool *agreed);

#endif
