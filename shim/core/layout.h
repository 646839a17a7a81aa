/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a communicator share a node. Pure. */
#ifndef CSHIM_LAYOUT_H
#define CSHIM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* The nodes of a communicator, numbered in the order of their lowest ranks. */
struct cshim_layout {
    uint32_t nodes;
    uint32_t ranks_per_node; /* number of ranks on the node with the fewest */
    int *node_of;            /* node of each rank; the layout owns this array and the next two */
    int *local_of;           /* local rank of each rank */
    /* Rank of each local rank and node, at index local rank * nodes + node; zeros if nodes differ
     * in their number of ranks. */
    int *rank_at;
    int node;       /* node of this rank */
    int local_rank; /* local rank of this rank */
    int local_ranks;
};

/* Fills the layout of `rank` among `ranks` ranks, of which those on one node have the same id. Ids
 * are any numbers in [0, ids). Returns false without memory. Free with cshim_layout_free. */
bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank);
void cshim_layout_free(struct cshim_layout *layout);

/* Lists in `inside`, unless it is NULL, the ranks of this rank's node (local_ranks of them), and in
 * `across`, by node, the rank that has this rank's local rank. The entry of a node without such a
 * rank is not changed. */
void cshim_layout_levels(const struct cshim_layout *layout, int ranks, int *inside, int *across);

#endif
