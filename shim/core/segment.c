/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/segment.h"

void cshim_role_find(struct cshim_role *role)
{
    const struct cshim_plan *plan = role->plan;
    const struct cshim_grid *grid = &plan->grid;
    struct cshim_peer_group *row = &role->groups[CSHIM_ROW], *column = &role->groups[CSHIM_COLUMN];
    uint32_t number, place;
    role->peer = role->rank;
    role->root = plan->root;
    if (plan->schedule->staged) {
        role->peer = (uint32_t)role->layout->local_rank < plan->shares ? role->layout->node : -1;
        role->root = (uint32_t)role->layout->node_of[plan->root];
    }
    *row = *column = (struct cshim_peer_group){-1, 0};
    if (role->peer < 0)
        return;
    const bool has_column =
        cshim_grid_find(grid, (uint32_t)role->peer, &number, &role->column, &place);
    role->first_of_row = cshim_grid_row(grid, number);
    row->rank = role->peer - (int)role->first_of_row;
    row->ranks = (int)(cshim_grid_row(grid, number + 1) - role->first_of_row);
    if (has_column && grid->rows > 1)
        *column = (struct cshim_peer_group){(int)place, (int)cshim_grid_depth(grid)};
}

int cshim_role_peer(const struct cshim_role *role, enum cshim_dimension dimension, int index)
{
    return (int)(dimension == CSHIM_ROW
                     ? role->first_of_row + (uint32_t)index
                     : cshim_grid_peer(&role->plan->grid, role->column, (uint32_t)index));
}

bool cshim_role_gathers(const struct cshim_role *role)
{
    const struct cshim_plan *plan = role->plan;
    return plan->schedule->staged && plan->schedule->division != CSHIM_BLOCKS &&
           (plan->collective != CSHIM_REDUCE || (uint32_t)role->layout->node == role->root);
}

static bool has_blocks(const struct cshim_segment *segment)
{
    return segment->role->plan->schedule->division == CSHIM_BLOCKS;
}

struct cshim_range cshim_segment_share(const struct cshim_segment *segment, int local_rank)
{
    const struct cshim_range *whole = &segment->whole;
    const uint32_t shares = segment->role->plan->shares;
    if ((uint32_t)local_rank >= shares)
        return (struct cshim_range){whole->begin + whole->length, 0};
    struct cshim_range share = cshim_plan_chunk(whole->length, shares, (uint32_t)local_rank);
    share.begin += whole->begin;
    return share;
}

struct cshim_segment cshim_segment_at(const struct cshim_role *role, uint64_t index)
{
    const struct cshim_plan *plan = role->plan;
    const uint64_t begin = index * plan->segment, left = plan->count - begin;
    struct cshim_segment segment = {.role = role, .index = index};
    segment.whole = has_blocks(&segment)
                        ? (struct cshim_range){0, plan->count}
                        : (struct cshim_range){begin, left < plan->segment ? left : plan->segment};
    if (plan->schedule->staged && !has_blocks(&segment)) {
        if (plan->library->on_device)
            segment.whole.length -= segment.whole.length % ((uint64_t)plan->shares * CSHIM_GRAIN);
        segment.share = cshim_segment_share(&segment, role->layout->local_rank);
    } else {
        segment.share = segment.whole;
    }
    return segment;
}

/* Returns a segment's chunk of a rank's block. */
static struct cshim_range block_chunk(const struct cshim_segment *segment, const uint64_t *begins,
                                      int rank)
{
    const struct cshim_plan *plan = segment->role->plan;
    const uint64_t begin = begins != NULL ? begins[rank] : (uint64_t)rank * plan->block;
    const uint64_t length = begins != NULL ? begins[rank + 1] - begin : plan->block;
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    const uint64_t done = segment->index * chunk;
    if (done >= length)
        return (struct cshim_range){begin, 0};
    return (struct cshim_range){begin + done, length - done < chunk ? length - done : chunk};
}

struct cshim_range cshim_segment_block(const struct cshim_segment *segment, int node,
                                       int local_rank)
{
    const struct cshim_layout *layout = segment->role->layout;
    return block_chunk(segment, segment->role->block_begins,
                       layout->rank_at[local_rank * (int)layout->nodes + node]);
}

/* Returns the index of this rank's share, from which cshim_plan_owned() derives the owners of
 * chunks if a share has fewer chunks than peers. Returns 0 on a device: there the same peers own
 * the chunks of all shares, because a kernel takes the chunks of all peers in their order. */
static uint32_t share_of(const struct cshim_segment *segment)
{
    const struct cshim_role *role = segment->role;
    return role->plan->schedule->staged && !role->plan->library->on_device
               ? (uint32_t)role->layout->local_rank
               : 0;
}

struct cshim_range cshim_segment_owned(const struct cshim_segment *segment, int peer)
{
    const struct cshim_role *role = segment->role;
    const struct cshim_plan *plan = role->plan;
    if (has_blocks(segment))
        return plan->schedule->staged ? cshim_segment_block(segment, peer, role->layout->local_rank)
                                      : block_chunk(segment, role->block_begins, peer);
    if ((uint32_t)peer >= plan->grid.columns) /* last peer of a longer row: owns nothing */
        return (struct cshim_range){0, 0};
    if (plan->schedule->division == CSHIM_CHUNKS)
        return cshim_plan_owned(segment->share.length, plan->grid.columns, share_of(segment),
                                (uint32_t)peer);
    return (struct cshim_range){0, segment->share.length};
}

struct cshim_range cshim_segment_sent(const struct cshim_segment *segment, int to)
{
    return block_chunk(segment, segment->role->sent_begins, to);
}

struct cshim_range cshim_segment_piece(const struct cshim_segment *segment, int column,
                                       uint32_t place)
{
    const struct cshim_grid *grid = &segment->role->plan->grid;
    if (grid->rows == 1)
        return cshim_segment_owned(segment, column);
    if ((uint32_t)column >= grid->columns)
        return (struct cshim_range){0, 0};
    return cshim_grid_piece(grid, segment->share.length, share_of(segment), (uint32_t)column,
                            place);
}
