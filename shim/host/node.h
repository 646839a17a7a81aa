/* SPDX-License-Identifier: Apache-2.0 */
/* Intra-node operations of staged schedules (CSHIM_OPERATION_NODE_REDUCE, _GATHER): by shared
 * memory if all ranks of the node have it, otherwise by messages, with the same sums. Functions
 * that return an int return 0 or a transport error. */
#ifndef CSHIM_HOST_NODE_H
#define CSHIM_HOST_NODE_H

#include "shim/host/exchange.h"

/* Sums up what the ranks of this node contribute to a segment. Each rank that has a share gets the
 * sum of its share in flight->stage. */
int cshim_node_reduce(struct cshim_exchange *exchange, const struct cshim_flight *flight);
/* Gathers the reduced shares in the output of each rank of the node; in a reduce, of the root only.
 */
int cshim_node_gather(struct cshim_exchange *exchange, const struct cshim_flight *flight);
/* Returns true if shared memory may be used; equal on all ranks of the node. The first barrier
 * finds out whether all of them have a shared scratch. */
bool cshim_node_may_share(const struct cshim_exchange *exchange);
/* Waits, if memory is shared, until no rank reads this rank's scratch any more. Called after the
 * last segment. */
int cshim_node_close(struct cshim_exchange *exchange);

#endif
