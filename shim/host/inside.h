/* SPDX-License-Identifier: Apache-2.0 */
/* Intra-node steps of the algorithm hierarchical: before the stages of steps.h the ranks of a node
 * add a segment's elements; after them they gather the reduced shares. By shared memory if all
 * ranks of the node have it, otherwise by messages, with the same sums. Functions that return an
 * int return an error of the transport. */
#ifndef CSHIM_HOST_INSIDE_H
#define CSHIM_HOST_INSIDE_H

#include "shim/host/segment.h"

/* Adds the contributions of this node's ranks to a segment. Each rank gets its share of the sum. */
int cshim_steps_reduce_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Gathers the reduced shares in the output of each rank of the node, or of the call's root only. */
int cshim_steps_gather_inside(struct cshim_exchange *exchange, const struct cshim_segment *segment);
/* Returns true if shared memory may be used; equal on all ranks of the node. The first barrier
 * finds out whether all of them have a shared scratch. */
bool cshim_steps_may_share_inside(const struct cshim_exchange *exchange);
/* Called after the last segment: waits until no rank reads this rank's scratch any more. */
int cshim_steps_close_inside(struct cshim_exchange *exchange);

#endif
