/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/grid.h"

#include "codecs/codec.h"

/* Returns the length of a part if `count` elements are cut into `parts` parts: whole grains. The
 * last parts may be shorter or empty. */
static uint64_t part_of(uint64_t count, uint32_t parts)
{
    const uint64_t even = count / parts + (count % parts != 0);
    return (even / CSHIM_GRAIN + (even % CSHIM_GRAIN != 0)) * CSHIM_GRAIN;
}

struct cshim_range cshim_plan_chunk(uint64_t count, uint32_t ranks, uint32_t index)
{
    const uint64_t chunk = part_of(count, ranks);
    const uint64_t begin = index * chunk < count ? index * chunk : count;
    return (struct cshim_range){begin, chunk < count - begin ? chunk : count - begin};
}

struct cshim_range cshim_plan_owned(uint64_t count, uint32_t peers, uint32_t share, uint32_t peer)
{
    const uint64_t chunk = part_of(count, peers);
    const uint64_t chunks = chunk > 0 ? (count - 1) / chunk + 1 : 0;
    const uint32_t first = (uint32_t)(share * chunks % peers);
    return cshim_plan_chunk(count, peers, (peer + (peers - first)) % peers);
}

struct cshim_grid cshim_grid_make(uint32_t peers, uint32_t rows)
{
    return (struct cshim_grid){.peers = peers, .rows = rows, .columns = peers / rows};
}

void cshim_grid_place_owners(struct cshim_grid *grid, uint64_t chunks)
{
    const uint64_t owners_columns = (chunks + grid->rows - 1) / grid->rows;
    if (grid->rows > 1 && chunks + owners_columns <= grid->columns)
        grid->outside = (uint32_t)chunks;
}

uint32_t cshim_grid_row(const struct cshim_grid *grid, uint32_t row)
{
    return (uint32_t)((uint64_t)grid->peers * row / grid->rows);
}

uint32_t cshim_grid_depth(const struct cshim_grid *grid)
{
    return grid->rows + (grid->outside > 0 ? 1 : 0);
}

uint32_t cshim_grid_places(const struct cshim_grid *grid)
{
    const uint32_t longest = grid->columns + (grid->peers % grid->rows != 0 ? 1 : 0);
    const uint32_t depth = cshim_grid_depth(grid);
    return longest > depth ? longest : depth;
}

uint32_t cshim_grid_peer(const struct cshim_grid *grid, uint32_t column, uint32_t place)
{
    return place < grid->rows
               ? cshim_grid_row(grid, place) + column
               : cshim_grid_row(grid, column % grid->rows) + grid->outside + column / grid->rows;
}

bool cshim_grid_find(const struct cshim_grid *grid, uint32_t peer, uint32_t *row, uint32_t *column,
                     uint32_t *place)
{
    /* The last row whose first peer is at most `peer`. */
    *row = (uint32_t)((((uint64_t)peer + 1) * grid->rows - 1) / grid->peers);
    *column = peer - cshim_grid_row(grid, *row);
    *place = *row;
    if (grid->outside == 0 || *column < grid->outside)
        return *column < grid->columns;
    const uint32_t idle = *column - grid->outside;
    *column = idle * grid->rows + *row;
    *place = grid->rows;
    return *column < grid->outside;
}

struct cshim_range cshim_grid_piece(const struct cshim_grid *grid, uint64_t count, uint32_t share,
                                    uint32_t column, uint32_t place)
{
    const struct cshim_range chunk = cshim_plan_owned(count, grid->columns, share, column);
    if (grid->rows == 1 || chunk.length == 0)
        return chunk;
    if (grid->outside > 0)
        return (struct cshim_range){chunk.begin, place == grid->rows ? chunk.length : 0};
    const uint64_t longest = cshim_plan_chunk(count, grid->columns, 0).length;
    const uint64_t chunks_before = share * ((count - 1) / longest + 1) + chunk.begin / longest;
    struct cshim_range piece = cshim_plan_owned(
        chunk.length, grid->rows, (uint32_t)(chunks_before / grid->columns) + column, place);
    piece.begin += chunk.begin;
    return piece;
}
