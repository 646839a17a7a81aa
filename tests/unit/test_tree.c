/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the tree over which the ranks of a job agree: parents and children for all numbers of ranks
 * up to RANKS_MAX, sizes and heights for some of these numbers. */
#include "shim/core/tree.h"
#include "tests/unit/unit.h"

#define RANKS_MAX 5000

TEST(each_rank_but_0_is_the_child_of_its_parent_only)
{
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        int next = 1, first; /* children are numbered in the order of their parents */
        for (int rank = 0; rank < ranks; rank++) {
            const int children = cshim_tree_children(rank, ranks, &first);
            assert_in_range(children, 0, CSHIM_TREE_WIDTH);
            for (int child = first; child < first + children; child++) {
                assert_int_equal(child, next++);
                assert_int_equal(cshim_tree_parent(child), rank);
            }
        }
        assert_int_equal(next, ranks);
    }
}

TEST(sizes_and_heights_are_those_of_the_children_and_one_more)
{
    for (int ranks = 1; ranks <= RANKS_MAX; ranks += 1 + ranks / 20)
        for (int rank = 0; rank < ranks; rank++) {
            int first, size = 1, height = 0;
            const int children = cshim_tree_children(rank, ranks, &first);
            for (int child = first; child < first + children; child++) {
                const int below = cshim_tree_height(child, ranks) + 1;
                size += cshim_tree_size(child, ranks);
                height = below > height ? below : height;
            }
            assert_int_equal(cshim_tree_size(rank, ranks), size);
            assert_int_equal(cshim_tree_height(rank, ranks), height);
        }
    assert_int_equal(cshim_tree_height(0, 9), 1);
    assert_int_equal(cshim_tree_height(0, 4096 * 128), 7);
}
