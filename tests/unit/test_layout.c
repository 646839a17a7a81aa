/* SPDX-License-Identifier: Apache-2.0 */
/* Checks nodes and local ranks in random layouts. */
#include "shim/core/layout.h"
#include "tests/unit/unit.h"

#define RANKS 24

/* Checks that the ranks of `rank`'s node have distinct local indices, that the layout lists them
 * and the ranks of other nodes with the same local index and, if all nodes have equally many ranks,
 * that rank_at has each rank. */
static void check_places(const int *id_of, int ranks, int rank)
{
    struct cshim_layout layout;
    assert_true(cshim_layout_make(&layout, id_of, ranks, RANKS, rank));
    const int nodes = (int)layout.nodes;
    const bool even = ranks == nodes * (int)layout.ranks_per_node;
    assert_int_equal(layout.inside[layout.local_rank], rank);
    assert_int_equal(layout.across[layout.node], rank);
    for (int other = 0; other < ranks; other++) {
        const int node = layout.node_of[other], place = layout.local_of[other];
        assert_true(!even || layout.rank_at[place * nodes + node] == other);
        assert_true(place != layout.local_rank || layout.across[node] == other);
        assert_true(node != layout.node || layout.inside[place] == other);
    }
    cshim_layout_free(&layout);
}

TEST(partners_and_places)
{
    uint32_t chance = 1;
    for (int i = 0; i < 2000; i++) {
        int id_of[RANKS];
        const int ranks = 1 + i % RANKS;
        for (int rank = 0; rank < ranks; rank++) {
            chance = chance * 1664525 + 1013904223;
            id_of[rank] = (int)((chance >> 16) % (uint32_t)(1 + i / RANKS % RANKS));
        }
        check_places(id_of, ranks, i % ranks);
        for (int rank = 0; rank < ranks; rank++)
            id_of[rank] = rank % 3; /* equally full nodes for some numbers of ranks */
        check_places(id_of, ranks, i % ranks);
    }
}
