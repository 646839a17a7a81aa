/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks try out links with each other, in layouts drawn by chance. */
#include "shim/core/layout.h"
#include "tests/unit/unit.h"

#define RANKS 24

/* The partners that all ranks of a job find: two of a pair have to find each other. */
static void check_partners(const int *id_of, int ranks, bool inside)
{
    int partner_of[RANKS], node_of[RANKS], nodes = 0, pairs = 0;
    bool shares = false;
    for (int rank = 0; rank < ranks; rank++) {
        struct cshim_layout layout;
        assert_true(cshim_layout_make(&layout, id_of, ranks, RANKS, rank));
        partner_of[rank] = cshim_layout_partner(&layout, ranks, inside);
        node_of[rank] = layout.node;
        nodes = (int)layout.nodes;
        shares = shares || layout.local_ranks > 1;
        cshim_layout_free(&layout);
    }
    for (int rank = 0; rank < ranks; rank++) {
        const int partner = partner_of[rank];
        if (partner < 0)
            continue;
        assert_in_range(partner, 0, ranks - 1);
        assert_int_not_equal(partner, rank);
        assert_int_equal(partner_of[partner], rank);
        assert_int_equal(node_of[partner] == node_of[rank], inside);
        pairs += rank < partner;
    }
    if (inside)
        assert_int_equal(pairs > 0, shares);
    else
        assert_int_equal(pairs, nodes / 2);
    assert_int_equal(partner_of[0] >= 0 || inside, nodes > 1 || inside);
}

TEST(partners_find_each_other)
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
    }
}
