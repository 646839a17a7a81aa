/* SPDX-License-Identifier: Apache-2.0 */
/* grid: two_shot along rows, whose reduced chunks are the contributions of a two_shot along columns
 * (shim/core/grid.h). Each column owns a chunk of the segment, and each place (index in the column)
 * a piece of the chunk. Each peer sends its contribution to each chunk to the column's peer in its
 * own row, which reduces the row's contributions and sends each piece to the piece's owner in the
 * column. The owner reduces the rows' sums, and sends the reduced piece back to all places of the
 * column. Each of them forwards the chunk along its row. Each of the p peers sends about 4 sqrt(p)
 * messages in each segment; a value is rounded three times.
 *
 * An owner outside its column (at the column's last index) contributes nothing to the column, and
 * receives no reduced pieces from it.
 *
 * Buffers of the row: as in two_shot. Buffers of the column: contributions[i], the row sum of place
 * i for this peer's piece; reduced[i], the reduced piece of place i; outgoing[i], this row's sum
 * for the piece of place i. */
#include "shim/core/compiler.h"

static const struct cshim_peer_group *row_of(const struct cshim_compiler *compiler)
{
    return &compiler->role->groups[CSHIM_ROW];
}

static const struct cshim_peer_group *column_of(const struct cshim_compiler *compiler)
{
    return &compiler->role->groups[CSHIM_COLUMN];
}

static bool has_column(const struct cshim_compiler *compiler)
{
    return column_of(compiler)->rank >= 0;
}

/* Returns the piece that a place of this peer's column owns of the column's chunk. */
static struct cshim_range piece_of(const struct cshim_compiler *compiler, int place)
{
    return cshim_segment_piece(compiler->segment, (int)compiler->role->column, (uint32_t)place);
}

/* Returns true if `place` is the column's last index, which only an owner outside the column
 * has. */
static bool is_outside(const struct cshim_compiler *compiler, int place)
{
    return (uint32_t)place == compiler->plan->grid.rows;
}

static void receive_column(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *column = column_of(compiler);
    for (int i = 1; i < column->ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_COLUMN, -i);
        if (!is_outside(compiler, from))
            cshim_emit_receive(compiler, CSHIM_MESSAGE_COLUMN_PARTS, from,
                               piece_of(compiler, column->rank).length,
                               cshim_slot(compiler, CSHIM_COLUMN, CSHIM_CONTRIBUTIONS, from));
        if (!is_outside(compiler, column->rank))
            cshim_emit_receive(compiler, CSHIM_MESSAGE_COLUMN_SUMS, from,
                               piece_of(compiler, from).length,
                               cshim_slot(compiler, CSHIM_COLUMN, CSHIM_REDUCED, from));
    }
}

/* Reduces the row's contributions to each piece of this column's chunk. */
static void reduce_row(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = row_of(compiler), *column = column_of(compiler);
    const uint64_t elements = cshim_segment_owned(compiler->segment, row->rank).length;
    if (elements == 0)
        return;
    for (int from = 0; from < row->ranks; from++)
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, from, elements,
                        cshim_contributions(compiler, from), 0, (unsigned)from);
    for (int to = 0; to < column->ranks; to++) {
        const struct cshim_range piece = piece_of(compiler, to);
        const uint64_t offset = cshim_slot(
            compiler, CSHIM_COLUMN, to == column->rank ? CSHIM_CONTRIBUTIONS : CSHIM_OUTGOING, to);
        if (piece.length == 0)
            continue;
        cshim_emit_message(compiler, CSHIM_MESSAGE_COLUMN_PARTS, to, piece.length, offset);
        cshim_emit_reduce_to_message(compiler, CSHIM_MESSAGE_COLUMN_PARTS, (unsigned)row->ranks,
                                     &piece, false);
        if (to != column->rank)
            cshim_emit_send(compiler, CSHIM_MESSAGE_COLUMN_PARTS, to, offset);
    }
}

/* Reduces the rows' sums of this peer's piece. */
static void reduce_column(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *column = column_of(compiler);
    const struct cshim_range piece = piece_of(compiler, column->rank);
    const uint64_t offset = cshim_slot(compiler, CSHIM_COLUMN, CSHIM_REDUCED, column->rank);
    unsigned inputs = 0;
    if (piece.length == 0)
        return;
    for (int from = 0; from < column->ranks; from++)
        if (!is_outside(compiler, from))
            cshim_emit_read(compiler, CSHIM_MESSAGE_COLUMN_PARTS, from, piece.length,
                            cshim_slot(compiler, CSHIM_COLUMN, CSHIM_CONTRIBUTIONS, from), 0,
                            inputs++);
    cshim_emit_message(compiler, CSHIM_MESSAGE_COLUMN_SUMS, -1, piece.length, offset);
    cshim_emit_reduce_to_message(compiler, CSHIM_MESSAGE_COLUMN_SUMS, inputs, &piece, false);
    for (int i = 1; i < column->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_COLUMN, i);
        if (!is_outside(compiler, to))
            cshim_emit_send(compiler, CSHIM_MESSAGE_COLUMN_SUMS, to, offset);
    }
}

/* Sends the reduced pieces of this column's chunk along the row. Writes the message's header only
 * after a piece has been read: the header contains the largest encoding error known here, and a
 * peer that reduces no piece learns the errors of other rows only from the pieces' headers. */
static void forward_chunk(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = row_of(compiler), *column = column_of(compiler);
    const uint64_t offset = cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, row->rank);
    const uint64_t elements = cshim_segment_owned(compiler->segment, row->rank).length;
    if (elements == 0)
        return;
    bool has_begun = false;
    for (int from = 0; from < column->ranks; from++) {
        const uint64_t piece = piece_of(compiler, from).length;
        if (piece == 0)
            continue;
        cshim_emit_read(compiler, CSHIM_MESSAGE_COLUMN_SUMS, from, piece,
                        cshim_slot(compiler, CSHIM_COLUMN, CSHIM_REDUCED, from), 0, 0);
        if (!has_begun)
            cshim_emit_message(compiler, CSHIM_MESSAGE_SUMS, -1, elements, offset);
        has_begun = true;
        cshim_emit_forward(compiler, CSHIM_MESSAGE_COLUMN_SUMS, piece);
    }
    cshim_emit_sends(compiler, CSHIM_MESSAGE_SUMS, offset);
}

void cshim_compile_grid(struct cshim_compiler *compiler)
{
    cshim_emit_receives(compiler, true);
    receive_column(compiler);
    cshim_emit_contributions(compiler, true);
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    reduce_row(compiler);
    if (has_column(compiler)) {
        cshim_emit_wait_received(compiler, CSHIM_MESSAGE_COLUMN_PARTS, 2);
        reduce_column(compiler);
        cshim_emit_wait_received(compiler, CSHIM_MESSAGE_COLUMN_SUMS, 2);
        forward_chunk(compiler);
    }
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_SUMS, CSHIM_PIPELINE_DEPTH);
    cshim_emit_decodes(compiler, CSHIM_MESSAGE_SUMS, CSHIM_REDUCED, -1);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_SUMS);
    if (!has_column(compiler))
        return;
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_COLUMN_PARTS);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_COLUMN_SUMS);
}
