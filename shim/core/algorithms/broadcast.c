/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts. By one_shot the root sends the encoded segment to all peers. By two_shot it sends
 * chunk r to peer r, and each peer, the root included, forwards its encoded chunk unchanged to all
 * others. So the root usually sends less than two segments; by one_shot it sends one to each peer.
 * Each element is rounded at most once. If the codec rounds, the root also decodes its own message,
 * so all ranks get equal elements. */
#include "shim/core/compiler.h"

static bool is_root(const struct cshim_compiler *compiler)
{
    return (uint32_t)compiler->role->groups[CSHIM_ROW].rank == compiler->role->root;
}

/* Returns true if this peer decodes the messages. In host memory the root does not decode raw or
 * lossless, because its buffer may be read-only. On a device it does, because its result may have
 * another buffer. */
static bool decodes(const struct cshim_compiler *compiler)
{
    return !is_root(compiler) || compiler->plan->library->on_device ||
           !cshim_plan_leaves_root(compiler->plan->codec);
}

/* Compiles a broadcast by one_shot. The message lies at the start of the segment's scratch: the
 * root encodes it there, and the others receive it there. */
void cshim_compile_broadcast(struct cshim_compiler *compiler)
{
    const struct cshim_range whole = {0, compiler->segment->share.length};
    const int root = (int)compiler->role->root;
    if (is_root(compiler)) {
        cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, -1, whole.length, 0);
        cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &whole, 0);
        cshim_emit_sends(compiler, CSHIM_MESSAGE_PARTS, 0);
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

/* Buffers: contributions[root], this peer's chunk from the root; reduced[q], chunk q, forwarded by
 * peer q (at this peer's own index: the message that it forwards); at the root also outgoing[q],
 * chunk q for peer q. */
void cshim_compile_scattered_broadcast(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range own = cshim_segment_owned(compiler->segment, row->rank);
    const int root = (int)compiler->role->root;
    const uint64_t contribution = cshim_contributions(compiler, root);
    const uint64_t forwarded = cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, row->rank);
    for (int i = 1; i < row->ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        if (from == root)
            cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from, own.length, contribution);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_SUMS, from,
                           cshim_segment_owned(compiler->segment, from).length,
                           cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, from));
    }
    if (is_root(compiler))
        cshim_emit_contributions(compiler, true);
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    if (own.length > 0) {
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, root, own.length, contribution, 0, 0);
        cshim_emit_message(compiler, CSHIM_MESSAGE_SUMS, -1, own.length, forwarded);
        cshim_emit_forward(compiler, CSHIM_MESSAGE_PARTS, own.length);
        cshim_emit_sends(compiler, CSHIM_MESSAGE_SUMS, forwarded);
    }
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_SUMS, CSHIM_PIPELINE_DEPTH);
    if (decodes(compiler))
        cshim_emit_decodes(compiler, CSHIM_MESSAGE_SUMS, CSHIM_REDUCED, -1);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_SUMS);
}
