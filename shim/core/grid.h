/* SPDX-License-Identifier: Apache-2.0 */
/* A grid: peers in rows and columns, so that each exchanges messages with those of its row and of
 * its column only. Pure.
 *
 * Eleven peers in three rows, and three columns:
 *
 *   0  1  2
 *   3  4  5  6
 *   7  8  9 10
 *
 * Peers 6 and 10 are in no column. A column owns a chunk of the elements, and each of its peers a
 * piece of that. Peers without a grid are one row: each is a column of its own and owns its chunk.
 *
 * If a call has fewer grains than there are columns, each chunk is at most one grain and has one
 * piece, whose owner receives from the whole column. If the columns without a chunk have enough
 * peers, such a peer owns each piece: the owner is then outside the column, at the column's last
 * index. */
#ifndef CSHIM_GRID_H
#define CSHIM_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct cshim_grid {
    uint32_t peers;
    uint32_t rows;
    uint32_t columns;
    uint32_t outside; /* number of columns with a chunk, if their owners are outside; otherwise 0 */
};

/* A range of elements. */
struct cshim_range {
    uint64_t begin;
    uint64_t length;
};

/* Returns the part at `index` when `count` elements are cut evenly into `ranks` parts: shares of
 * the ranks of a node, or chunks. Parts are whole grains, except the last one that is not empty;
 * the parts after it are empty. */
struct cshim_range cshim_plan_chunk(uint64_t count, uint32_t ranks, uint32_t index);

/* Returns the chunk of a share of `count` elements that a peer owns; it may be empty. A small share
 * has fewer chunks than there are peers: its owners follow those of the previous share, cyclically.
 * This spreads the chunks of equally long shares over the peers. */
struct cshim_range cshim_plan_owned(uint64_t count, uint32_t peers, uint32_t share, uint32_t peer);

/* Largest number of peers for which there is no grid. */
#define CSHIM_GRID_NONE 3u

/* Returns a grid of `peers` peers in `rows` rows; one row: no grid. */
struct cshim_grid cshim_grid_make(uint32_t peers, uint32_t rows);
/* Puts the owners of `chunks` chunks of one grain each (of all shares together) outside, if the
 * columns without a chunk have enough peers. */
void cshim_grid_place_owners(struct cshim_grid *grid, uint64_t chunks);

/* Returns the first peer of a row; for row `rows` the number of peers. */
uint32_t cshim_grid_row(const struct cshim_grid *grid, uint32_t row);
/* Returns the number of peers of a column: one for each row, plus the owner if it is outside. */
uint32_t cshim_grid_depth(const struct cshim_grid *grid);
/* Returns the maximum number of peers in any row or column. */
uint32_t cshim_grid_places(const struct cshim_grid *grid);
/* Returns the peer at index `place` of a column. */
uint32_t cshim_grid_peer(const struct cshim_grid *grid, uint32_t column, uint32_t place);
/* Sets a peer's row, the column whose messages it sends and receives, and its index (`place`) in
 * that column. Returns false if it has no column. */
bool cshim_grid_find(const struct cshim_grid *grid, uint32_t peer, uint32_t *row, uint32_t *column,
                     uint32_t *place);
/* Returns the piece of a share of `count` elements that index `place` of a column owns; it may be
 * empty. Without a grid it is the chunk. Owners of pieces rotate from column to column, and from
 * share to share, like those of chunks (cshim_plan_owned). */
struct cshim_range cshim_grid_piece(const struct cshim_grid *grid, uint64_t count, uint32_t share,
                                    uint32_t column, uint32_t place);

#endif
