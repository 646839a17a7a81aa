/* SPDX-License-Identifier: Apache-2.0 */
/* In an all-gather each peer sends its block to all; in an all-to-all, a different block to each. A
 * segment has one chunk of each block, which may be empty. Nothing is reduced: every peer decodes
 * the messages that it receives, and its own block. In each segment each of the p peers sends at
 * most p - 1 messages. Each element is rounded at most once.
 *
 * Buffers: contributions[q], the message from peer q. contributions[own], this peer's own encoded
 * block, in an all-gather also the message that it sends. outgoing[q], only in an all-to-all: the
 * message to peer q. */
#include "shim/core/compiler.h"

static void receive_blocks(struct cshim_compiler *compiler)
{
    for (int i = 1; i < compiler->role->groups[CSHIM_ROW].ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from,
                           cshim_segment_owned(compiler->segment, from).length,
                           cshim_contributions(compiler, from));
    }
}

/* Emits a message with a block's chunk. Returns false if the chunk is empty. */
static bool encode_block(struct cshim_compiler *compiler, int to, const struct cshim_range *chunk,
                         uint64_t offset)
{
    if (chunk->length == 0)
        return false;
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, to, chunk->length, offset);
    cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, chunk, 0);
    return true;
}

static void decode_blocks(struct cshim_compiler *compiler)
{
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    cshim_emit_decodes(compiler, CSHIM_MESSAGE_PARTS, CSHIM_CONTRIBUTIONS, -1);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
}

void cshim_compile_allgather(struct cshim_compiler *compiler)
{
    const int own = compiler->role->groups[CSHIM_ROW].rank;
    const struct cshim_range chunk = cshim_segment_owned(compiler->segment, own);
    const uint64_t offset = cshim_contributions(compiler, own);
    receive_blocks(compiler);
    if (encode_block(compiler, -1, &chunk, offset))
        cshim_emit_sends(compiler, CSHIM_MESSAGE_PARTS, offset);
    decode_blocks(compiler);
}

void cshim_compile_alltoall(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    receive_blocks(compiler);
    for (int i = 1; i <= row->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i % row->ranks);
        const struct cshim_range chunk = cshim_segment_sent(compiler->segment, to);
        const uint64_t offset = to == row->rank
                                    ? cshim_contributions(compiler, to)
                                    : cshim_slot(compiler, CSHIM_ROW, CSHIM_OUTGOING, to);
        if (encode_block(compiler, to, &chunk, offset) && to != row->rank)
            cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, to, offset);
    }
    decode_blocks(compiler);
}
