/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of the ranks of a job: rank 0 is its root, and each rank has up to CSHIM_TREE_WIDTH
 * children. With MPI the ranks agree, and collect their ledgers at rank 0, along this tree, so that
 * no rank needs more than CSHIM_TREE_WIDTH + 1 connections for that. */
#ifndef CSHIM_TREE_H
#define CSHIM_TREE_H

#define CSHIM_TREE_WIDTH 8

/* Returns the parent of a rank other than 0. */
static inline int cshim_tree_parent(int rank)
{
    return (rank - 1) / CSHIM_TREE_WIDTH;
}

/* Returns the number of a rank's children, which are consecutive ranks, and sets the first. */
static inline int cshim_tree_children(int rank, int ranks, int *first)
{
    *first = rank * CSHIM_TREE_WIDTH + 1;
    if (*first >= ranks)
        return 0;
    return ranks - *first < CSHIM_TREE_WIDTH ? ranks - *first : CSHIM_TREE_WIDTH;
}

/* Returns the number of ranks in the subtree of a rank, itself included. */
static inline int cshim_tree_size(int rank, int ranks)
{
    long size = 0, first = rank, last = rank; /* first and last rank of each level */
    while (first < ranks) {
        size += (last < ranks ? last : ranks - 1) - first + 1;
        first = first * CSHIM_TREE_WIDTH + 1;
        last = last * CSHIM_TREE_WIDTH + CSHIM_TREE_WIDTH;
    }
    return (int)size;
}

/* Returns the height of a rank's subtree: 0 without children, otherwise one more than that of its
 * first child. */
static inline int cshim_tree_height(int rank, int ranks)
{
    int height = 0;
    for (int first; cshim_tree_children(rank, ranks, &first) > 0; rank = first)
        height++;
    return height;
}

#endif
