/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ranks of a communicator that share a node. Pure. */
#ifndef CSHIM_LAYOUT_H
#define CSHIM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* The nodes of a communicator, numbered in the order of their lowest ranks. */
struct cshim_layout {
    uint32_t nodes;
    uint32_t ranks_per_node; /* number of ranks on the node with the fewest */
    int *node_of;            /* node of each rank; the layout owns this array and the next four */
    int *local_of;           /* local rank of each rank */
    /* Rank of each local rank and node, at index local rank * nodes + node; zeros if nodes differ
     * in their number of ranks. */
    int *rank_at;
    int *inside;    /* rank of each local rank of this node */
    int *across;    /* on each node, the rank with this rank's local rank; 0 if it has none */
    int node;       /* node of this rank */
    int local_rank; /* local rank of this rank */
    int local_ranks;
};

/* Fills the layout for this rank, `rank`. id_of[i] identifies the node of rank i, by any number in
 * [0, ids). Returns false if there is no memory. Free with cshim_layout_free. */
bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank);
void cshim_layout_free(struct cshim_layout *layout);

#endif
