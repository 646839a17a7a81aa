/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/layout.h"

#include <stdlib.h>

/* Numbers the nodes in the order in which they appear, and counts their ranks. */
static void number_nodes(struct cshim_layout *layout, const int *id_of, int ranks, int *number,
                         int *local)
{
    for (int i = 0; i < ranks; i++) {
        int *node = &number[id_of[i]]; /* number of the node, from 1; 0: none yet */
        if (*node == 0)
            *node = (int)++layout->nodes;
        layout->node_of[i] = *node - 1;
        layout->local_of[i] = local[*node - 1]++;
    }
}

/* Fills rank_at, inside and across. */
static void fill_places(struct cshim_layout *layout, int ranks)
{
    const int nodes = (int)layout->nodes;
    const bool is_even = ranks == nodes * (int)layout->ranks_per_node;
    for (int rank = 0; rank < ranks; rank++) {
        const int node = layout->node_of[rank], local_rank = layout->local_of[rank];
        if (is_even)
            layout->rank_at[local_rank * nodes + node] = rank;
        if (node == layout->node)
            layout->inside[local_rank] = rank;
        if (local_rank == layout->local_rank)
            layout->across[node] = rank;
    }
}

bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank)
{
    *layout = (struct cshim_layout){.node_of = calloc(5 * (size_t)ranks, sizeof(int))};
    int *number = calloc((size_t)ids, sizeof *number);
    int *local = calloc((size_t)ranks, sizeof *local);
    const bool enough = layout->node_of != NULL && number != NULL && local != NULL;
    if (enough) {
        layout->local_of = layout->node_of + ranks;
        layout->rank_at = layout->local_of + ranks;
        layout->inside = layout->rank_at + ranks;
        layout->across = layout->inside + ranks;
        number_nodes(layout, id_of, ranks, number, local);
        layout->node = layout->node_of[rank];
        layout->local_ranks = local[layout->node];
        layout->local_rank = layout->local_of[rank];
        layout->ranks_per_node = (uint32_t)ranks;
        for (uint32_t node = 0; node < layout->nodes; node++)
            if ((uint32_t)local[node] < layout->ranks_per_node)
                layout->ranks_per_node = (uint32_t)local[node];
        fill_places(layout, ranks);
    }
    free(number);
    free(local);
    if (!enough)
        cshim_layout_free(layout);
    return enough;
}

void cshim_layout_free(struct cshim_layout *layout)
{
    free(layout->node_of);
    layout->node_of = NULL;
}
