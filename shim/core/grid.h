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
 * Peers 6 and 10 stand in no column. A column owns a chunk of the elements, and of this each of its
 * peers a piece. Peers without a grid are one row: each is a column of its own and owns its chunk.
 *
 * A call of few grains has fewer chunks than there are columns, and each chunk one piece, whose
 * owner hears from the whole column. Where the columns without a chunk have enough peers, the
 * pieces are theirs: a column's owner is then outside, at the last place of the column.
 */
#ifndef CSHIM_GRID_H
#define CSHIM_GRID_H

#include <stdbool.h>
#include <stdint.h>

struct cshim_grid {
    uint32_t peers;
    uint32_t rows;
    uint32_t columns;
    uint32_t outside; /* the columns that have a chunk, if their owners are outside; else 0 */
};

/* The elements [*begin, *begin + *length) that `index` of `ranks` owns when `count` elements are
 * cut evenly: a peer's chunk in a two-shot, a rank's share on its node in hierarchical. Whole
 * grains except the last that is not empty; late ones may be empty. */
void cshim_plan_chunk(uint64_t count, uint32_t ranks, uint32_t index, uint64_t *begin,
                      uint64_t *length);

/* The chunk [*begin, *begin + *length) of a share of `count` elements that a peer adds up, maybe
 * none. A small share has fewer chunks than there are peers: its owners follow those of the share
 * before, so that no peer has a chunk of every share while others have none. */
void cshim_plan_owned(uint64_t count, uint32_t peers, uint32_t share, uint32_t peer,
                      uint64_t *begin, uint64_t *length);

/* Up to this many peers there is no grid. */
#define CSHIM_GRID_NONE 3u

/* Peers in a grid of so many rows; 1: no grid. */
struct cshim_grid cshim_grid_make(uint32_t peers, uint32_t rows);
/* Puts owners outside, if `chunks` of one grain each, over all shares, leave room for it. */
void cshim_grid_place_owners(struct cshim_grid *grid, uint64_t chunks);

/* The first peer of a row; that of row `rows` is the number of peers. */
uint32_t cshim_grid_row(const struct cshim_grid *grid, uint32_t row);
/* Places in a column: its rows, and maybe the owner outside. */
uint32_t cshim_grid_depth(const struct cshim_grid *grid);
/* Places that no row and no column has more of. */
uint32_t cshim_grid_places(const struct cshim_grid *grid);
/* The peer at a place of a column. */
uint32_t cshim_grid_peer(const struct cshim_grid *grid, uint32_t column, uint32_t place);
/* Finds a peer's row, its place there, and the column and the place in it where the peer has
 * messages. Returns false if there is no such column. */
bool cshim_grid_find(const struct cshim_grid *grid, uint32_t peer, uint32_t *row, uint32_t *column,
                     uint32_t *place);
/* The piece [*begin, *begin + *length) of a share of `count` elements that a place of a column
 * owns, maybe none. Without a grid it is the chunk. Owners in a column rotate from column to
 * column, and over the shares that have a chunk there, as those of chunks do (cshim_plan_owned). */
void cshim_grid_piece(const struct cshim_grid *grid, uint64_t count, uint32_t share,
                      uint32_t column, uint32_t place, uint64_t *begin, uint64_t *length);

#endif
