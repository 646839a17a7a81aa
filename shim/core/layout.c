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

bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank)
{
    *layout = (struct cshim_layout){.node_of = calloc(3 * (size_t)ranks, sizeof(int))};
    int *number = calloc((size_t)ids, sizeof *number);
    int *local = calloc((size_t)ranks, sizeof *local);
    const bool enough = layout->node_of != NULL && number != NULL && local != NULL;
    if (enough) {
        layout->local_of = layout->node_of + ranks;
        layout->rank_at = layout->local_of + ranks;
        number_nodes(layout, id_of, ranks, number, local);
        layout->node = layout->node_of[rank];
        layout->local_ranks = local[layout->node];
        layout->local_rank = layout->local_of[rank];
        layout->ranks_per_node = (uint32_t)ranks;
        for (uint32_t node = 0; node < layout->nodes; node++)
            if ((uint32_t)local[node] < layout->ranks_per_node)
                layout->ranks_per_node = (uint32_t)local[node];
        const int nodes = (int)layout->nodes;
        for (int i = 0; i < ranks && ranks == nodes * (int)layout->ranks_per_node; i++)
            layout->rank_at[layout->local_of[i] * nodes + layout->node_of[i]] = i;
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

void cshim_layout_levels(const struct cshim_layout *layout, int ranks, int *inside, int *across)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (layout->local_of[rank] == layout->local_rank)
            across[layout->node_of[rank]] = rank;
        if (inside != NULL && layout->node_of[rank] == layout->node)
            inside[layout->local_of[rank]] = rank;
    }
}
