/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a node do before and after the stages of steps.h, in hierarchical: they add the
 * elements of a segment, and gather the job's sums of all shares. They do so in memory that they
 * share; where they have none, by messages, with the same sums. All functions return an error of
 * the transport. */
#ifndef CSHIM_HOST_INSIDE_H
#define CSHIM_HOST_INSIDE_H

#include "shim/host/segment.h"

/* Adds the elements of a segment that the ranks of this node give: each rank ends with its share.
 */
int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Puts the shares' sums together in the output of each rank, or of the call's root. */
int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Returns true if shared memory may be used, which is the same on all ranks of the node. The first
 * of the functions above finds out whether all of them have it. */
bool cshim_steps_may_share_inside(const struct cshim_exchange *exchange);
/* Follows all segments: waits until no rank reads this rank's scratch any more. */
int cshim_steps_close_inside(struct cshim_exchange *exchange);

#endif
