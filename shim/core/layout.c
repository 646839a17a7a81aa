/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/layout.h"

#include <stdlib.h>

/* Numbers the nodes in the order in which they appear, and counts their ranks. */
static void number_nodes(struct cshim_layout *layout, const int *id_of, int ranks, int *number,
                         int *local)
{
    for (int i = 0; i < ranks; i++) {
        int *node = &number[id_of[i]]; /* from 1; 0: not seen yet */
        if (*node == 0)
            *node = (int)++layout->nodes;
        layout->node_of[i] = *node - 1;
        local[*node - 1]++;
    }
}

bool cshim_layout_make(struct cshim_layout *layout, const int *id_of, int ranks, int ids, int rank)
{
    *layout = (struct cshim_layout){.node_of = calloc((size_t)ranks, sizeof(int))};
    int *number = calloc((size_t)ids, sizeof *number);
    int *local = calloc((size_t)ranks, sizeof *local);
    const bool enough = layout->node_of != NULL && number != NULL && local != NULL;
    if (enough) {
        number_nodes(layout, id_of, ranks, number, local);
        layout->node = layout->node_of[rank];
        layout->local_ranks = local[layout->node];
        for (int i = 0; i < rank; i++)
            layout->local_rank += layout->node_of[i] == layout->node;
        layout->ranks_per_node = (uint32_t)ranks;
        for (uint32_t node = 0; node < layout->nodes; node++)
            if ((uint32_t)local[node] < layout->ranks_per_node)
                layout->ranks_per_node = (uint32_t)local[node];
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
    for (int node = 0; node < (int)layout->nodes; node++) {
        int place = 0;
        for (int rank = 0; rank < ranks; rank++) {
            if (layout->node_of[rank] != node)
                continue;
            if (across != NULL && place == layout->local_rank)
                across[node] = rank;
            if (inside != NULL && node == layout->node)
                inside[place] = rank;
            place++;
        }
    }
}

int cshim_layout_partner(const struct cshim_layout *layout, int ranks, bool inside)
{
    const int node = inside ? layout->node : layout->node ^ 1;
    const int place = inside ? 1 - layout->local_rank : 0;
    int seen = 0;
    if (!inside && layout->local_rank != 0)
        return -1;
    for (int rank = 0; rank < ranks; rank++)
        if (layout->node_of[rank] == node && seen++ == place)
            return rank;
    return -1;
}
