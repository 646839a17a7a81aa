/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements of a call each rank handles: its role in the call, and the segments that the call
 * is executed in. Pure: every rank derives the same ranges from the plan and the layout.
 *
 *     struct cshim_role role = {.plan = &plan, .layout = &layout, .rank = rank, ...};
 *     cshim_role_find(&role);
 *     for (uint64_t i = 0; i < plan.segments; i++) {
 *         struct cshim_segment segment = cshim_segment_at(&role, i);
 *         struct cshim_range chunk = cshim_segment_owned(&segment, peer);
 *     }
 */
#ifndef CSHIM_SEGMENT_H
#define CSHIM_SEGMENT_H

#include <stddef.h>

#include "shim/core/layout.h"
#include "shim/core/plan.h"

/* Returns how many elements of the range have an index below `length`. */
static inline size_t cshim_range_within(const struct cshim_range *range, int length)
{
    const uint64_t left = (uint64_t)length > range->begin ? (uint64_t)length - range->begin : 0;
    return left < range->length ? left : range->length;
}

/* Dimensions of the grid of peers. A rank exchanges messages with its row and its column; without a
 * grid all peers are one row. */
enum cshim_dimension { CSHIM_ROW, CSHIM_COLUMN, CSHIM_DIMENSIONS };
struct cshim_peer_group {
    int rank;  /* this rank's index; -1: it has no such row or column */
    int ranks; /* number of ranks */
};

/* A rank's role in a call. The caller sets the members up to `sent_begins`, cshim_role_find() the
 * others. */
struct cshim_role {
    const struct cshim_plan *plan;
    const struct cshim_layout *layout;
    int rank;
    /* Offset of each rank's block in elements, and the end of the last: ranks + 1 entries; NULL:
     * all blocks are equally long. sent_begins: the same for the blocks that an all-to-all sends.
     */
    const uint64_t *block_begins, *sent_begins;

    int peer;      /* index among the plan's peers; -1: the rank has no share */
    uint32_t root; /* the plan's root as a peer: its rank, or if staged its node */
    struct cshim_peer_group groups[CSHIM_DIMENSIONS];
    uint32_t first_of_row; /* first peer of this rank's row */
    uint32_t column;       /* this rank's column */
};

/* Finds the rank's index among the peers, and its row and column. Peers are all ranks; in
 * hierarchical and in a grid of nodes, one rank of each node. */
void cshim_role_find(struct cshim_role *role);

/* Returns the peer at an index of the rank's row or column. */
int cshim_role_peer(const struct cshim_role *role, enum cshim_dimension dimension, int index);

/* Returns true if the ranks of this node gather their reduced shares at the end: in hierarchical
 * and in a grid of nodes, except with blocks and, in a reduce, on other nodes than the root's. */
bool cshim_role_gathers(const struct cshim_role *role);

/* A segment of a call. */
struct cshim_segment {
    const struct cshim_role *role;
    uint64_t index;
    /* The call's elements in this segment; with blocks all elements of the call. In hierarchical on
     * a device, excludes the last elements, which cannot be cut into equal shares of whole grains.
     */
    struct cshim_range whole;
    struct cshim_range share; /* staged without blocks: this rank's share; otherwise `whole` */
};

struct cshim_segment cshim_segment_at(const struct cshim_role *role, uint64_t index);

/* Returns a local rank's share of a segment; empty for local ranks from plan->shares on. */
struct cshim_range cshim_segment_share(const struct cshim_segment *segment, int local_rank);

/* Returns the segment's chunk of the block of rank `local_rank` on node `node` (hierarchical). */
struct cshim_range cshim_segment_block(const struct cshim_segment *segment, int node,
                                       int local_rank);

/* Returns the elements of this rank's share that the peer at index `peer` of the row owns; may be
 * empty. If the division is CSHIM_WHOLE, returns the whole share. In a reduction the peer (in a
 * grid, its column) reduces them, otherwise it contributes or forwards them. The range counts from
 * the share's first element; with blocks, from the start of the buffer that has a block of each
 * rank (in an all-to-all, of the receive buffer). */
struct cshim_range cshim_segment_owned(const struct cshim_segment *segment, int peer);

/* Returns the segment's chunk of this rank's block for rank `to` in an all-to-all; its begin counts
 * from the start of the send buffer. */
struct cshim_range cshim_segment_sent(const struct cshim_segment *segment, int to);

/* Returns the elements of a column's chunk that index `place` of the column owns; without a grid
 * the chunk. */
struct cshim_range cshim_segment_piece(const struct cshim_segment *segment, int column,
                                       uint32_t place);

#endif
