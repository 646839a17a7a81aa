/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a communicator share a node. Pure. */
#ifndef CSHIM_LAYOUT_H
#define CSHIM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* The nodes of a communicator, numbered by their lowest ranks. */
struct cshim_layout {
    uint32_t nodes;
    uint32_t ranks_per_node; /* on the node with the fewest */
    int *node_of;            /* by rank; owned, and the next two with it */
    int *local_of;           /* by rank, its place among its node's ranks */
    int *rank_at;   /* by place times nodes plus node; filled only where nodes are equally full */
    int node;       /* of this rank */
    int local_rank; /* among its node's ranks */
    int local_ranks;
};

/* Fills the layout of `rank` among `ranks` ranks, of which those on one node have the same id. Ids
 * are any numbers in [0, ids). Returns false without memory. Free with cshim_layout_free. */
bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank);
void cshim_layout_free(struct cshim_layout *layout);

/* Finds the ranks of this rank's node, local_ranks of them, in order; and, by node, those that have
 * this rank's place in their nodes (0 where a node has no such place). `inside` may be NULL. */
void cshim_layout_levels(const struct cshim_layout *layout, int ranks, int *inside, int *across);

#endif
