/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts. By one_shot the root sends the encoded segment to all peers. By two_shot it sends
 * chunk r to peer r, and each peer, the root included, forwards its encoded chunk unchanged to all
 * others. So the root usually sends less than two segments; by one_shot it sends one to each peer.
 * One rounding. If the codec rounds, the root decodes its own message, too, so that all ranks get
 * the same elements. */
#include "shim/core/compiler.h"

static bool is_root(const struct cshim_compiler *compiler)
{
    return (uint32_t)compiler->role->groups[CSHIM_ROW].rank == compiler->role->root;
}

/* Returns true if this peer decodes the messages. In host memory the root of a broadcast in raw or
 * lossless does not, because its buffer may be read-only. NCCL's root may have another buffer for
 * its result. */
static bool decodes(const struct cshim_compiler *compiler)
{
    return !is_root(compiler) || compiler->plan->library->on_device ||
           !cshim_plan_leaves_root(compiler->plan->codec);
}

/* Buffer: the message, at the start of the segment's scratch. */
void cshim_compile_broadcast(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range whole = {0, compiler->segment->share.length};
    const int root = (int)compiler->role->root;
    if (is_root(compiler)) {
        cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, -1, whole.length, 0);
        cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &whole, 0);
        for (int i = 1; i < row->ranks; i++)
            cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, cshim_neighbour(compiler, CSHIM_ROW, i),
                            0);
    } else {
        cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, root, whole.length, 0);
    }
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    if (decodes(compiler)) {
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, root, whole.length, 0, 0, 0);
        cshim_emit_decode(compiler, CSHIM_MESSAGE_PARTS, &whole);
    }
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
}

static uint64_t forwarded(const struct cshim_compiler *compiler, int index)
{
    return cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, index);
}

/* Encodes chunk `to` at the root. */
static void encode_chunk(struct cshim_compiler *compiler, int to, uint64_t offset)
{
    const struct cshim_range chunk = cshim_segment_owned(compiler->segment, to);
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, to, chunk.length, offset);
    cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &chunk, 0);
}

/* Buffers: contributions[root], this peer's chunk from the root; forwarded[q], chunk q from peer q,
 * at this peer's own index the chunk that it forwards; at the root outgoing[q], chunk q for peer q.
 */
void cshim_compile_scattered_broadcast(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range own = cshim_segment_owned(compiler->segment, row->rank);
    const int root = (int)compiler->role->root;
    const uint64_t contribution = cshim_slot(compiler, CSHIM_ROW, CSHIM_CONTRIBUTIONS, root);
    for (int i = 1; i < row->ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        if (from == root)
            cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from, own.length, contribution);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_SUMS, from,
                           cshim_segment_owned(compiler->segment, from).length,
                           forwarded(compiler, from));
    }
    for (int i = 1; i < row->ranks && is_root(compiler); i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        const uint64_t offset = cshim_slot(compiler, CSHIM_ROW, CSHIM_OUTGOING, to);
        if (cshim_segment_owned(compiler->segment, to).length == 0)
            continue;
        encode_chunk(compiler, to, offset);
        cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, to, offset);
    }
    if (is_root(compiler) && own.length > 0)
        encode_chunk(compiler, row->rank, contribution);
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    if (own.length > 0) {
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, root, own.length, contribution, 0, 0);
        cshim_emit_message(compiler, CSHIM_MESSAGE_SUMS, -1, own.length,
                           forwarded(compiler, row->rank));
        cshim_emit_forward(compiler, CSHIM_MESSAGE_PARTS, own.length);
        for (int i = 1; i < row->ranks; i++)
            cshim_emit_send(compiler, CSHIM_MESSAGE_SUMS, cshim_neighbour(compiler, CSHIM_ROW, i),
                            forwarded(compiler, row->rank));
    }
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_SUMS, CSHIM_PIPELINE_DEPTH);
    for (int from = 0; from < row->ranks && decodes(compiler); from++) {
        const struct cshim_range chunk = cshim_segment_owned(compiler->segment, from);
        if (chunk.length == 0)
            continue;
        cshim_emit_read(compiler, CSHIM_MESSAGE_SUMS, from, chunk.length, forwarded(compiler, from),
                        0, 0);
        cshim_emit_decode(compiler, CSHIM_MESSAGE_SUMS, &chunk);
    }
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_SUMS);
}
