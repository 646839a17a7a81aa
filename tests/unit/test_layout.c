/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks try out links with each other, and who stands where, in layouts drawn by chance. */
#include "shim/core/layout.h"
#include "tests/unit/unit.h"

#define RANKS 24

static bool has_partner(const struct cshim_partners *partners, int rank)
{
    for (int i = 0; i < partners->count; i++)
        if (partners->ranks[i] == rank)
            return true;
    return false;
}

/* The partners that all ranks of a job find: two of them have to find each other, and both of a
 * pair have to know that it is one. */
static void check_partners(const int *id_of, int ranks, bool inside)
{
    struct cshim_partners of[RANKS];
    int node_of[RANKS], nodes = 0, pairs = 0, links = 0;
    bool shares = false;
    for (int rank = 0; rank < ranks; rank++) {
        struct cshim_layout layout;
        assert_true(cshim_layout_make(&layout, id_of, ranks, RANKS, rank));
        of[rank] = cshim_layout_partners(&layout, ranks, inside);
        node_of[rank] = layout.node;
        nodes = (int)layout.nodes;
        shares = shares || layout.local_ranks > 1;
        cshim_layout_free(&layout);
    }
    for (int rank = 0; rank < ranks; rank++) {
        const struct cshim_partners *own = &of[rank];
        for (int i = 0; i < own->count; i++) {
            const int other = own->ranks[i];
            assert_in_range(other, 0, ranks - 1);
            assert_int_not_equal(other, rank);
            assert_true(has_partner(&of[other], rank));
            assert_int_equal(of[other].count, own->count);
            assert_int_equal(node_of[other] == node_of[rank], inside);
            links++;
        }
        if (!own->is_paired)
            continue;
        const struct cshim_partners *partner = &of[own->ranks[0]];
        assert_true(partner->is_paired);
        assert_int_equal(partner->ranks[0], rank);
        assert_int_equal(own->is_first, rank < own->ranks[0]);
        pairs += own->is_first;
    }
    if (inside)
        assert_int_equal(pairs > 0, shares);
    else
        assert_int_equal(pairs, nodes / 2);
    if (!inside) /* four neighbours have six links in two directions */
        assert_int_equal(links, 12 * (nodes / 4) + (nodes % 4) * (nodes % 4 - 1));
    assert_int_equal(of[0].count > 0 || inside, nodes > 1 || inside);
}

/* Each rank has a place of its own on its node, and where nodes are equally full it is found by it.
 */
static void check_places(const int *id_of, int ranks, int rank)
{
    struct cshim_layout layout;
    int inside[RANKS], across[RANKS] = {0};
    assert_true(cshim_layout_make(&layout, id_of, ranks, RANKS, rank));
    const int nodes = (int)layout.nodes;
    const bool even = ranks == nodes * (int)layout.ranks_per_node;
    cshim_layout_levels(&layout, ranks, inside, across);
    assert_int_equal(inside[layout.local_rank], rank);
    assert_int_equal(across[layout.node], rank);
    for (int other = 0; other < ranks; other++) {
        const int node = layout.node_of[other], place = layout.local_of[other];
        assert_true(!even || layout.rank_at[place * nodes + node] == other);
        assert_true(place != layout.local_rank || across[node] == other);
        assert_true(node != layout.node || inside[place] == other);
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
        check_partners(id_of, ranks, false);
        check_partners(id_of, ranks, true);
        check_places(id_of, ranks, i % ranks);
        for (int rank = 0; rank < ranks; rank++)
            id_of[rank] = rank % 3; /* nodes that are equally full, for some of the jobs */
        check_places(id_of, ranks, i % ranks);
    }
}
