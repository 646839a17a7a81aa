/* SPDX-License-Identifier: Apache-2.0 */
/* one_shot: each peer sends its contribution to the whole segment to all peers; in a reduce, to the
 * root. Each receiver adds all contributions in peer order. Each of the p peers sends at most p - 1
 * messages in each segment; each contribution is rounded once.
 *
 * Buffers: contributions[q], the contribution of peer q; this peer's own is also the message that
 * it sends. */
#include "shim/core/compiler.h"

static bool is_receiver(const struct cshim_compiler *compiler, int peer)
{
    return compiler->plan->collective != CSHIM_REDUCE || (uint32_t)peer == compiler->role->root;
}

void cshim_compile_one_shot(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range whole = {0, compiler->segment->share.length};
    const int own = row->rank;
    for (int i = 1; i < row->ranks && is_receiver(compiler, own); i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from, whole.length,
                           cshim_contributions(compiler, from));
    }
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, -1, whole.length,
                       cshim_contributions(compiler, own));
    cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &whole, 0);
    for (int i = 1; i < row->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        if (is_receiver(compiler, to))
            cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, to, cshim_contributions(compiler, own));
    }
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    for (int from = 0; from < row->ranks && is_receiver(compiler, own); from++)
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, from, whole.length,
                        cshim_contributions(compiler, from), cshim_contributions(compiler, from),
                        (unsigned)from);
    if (is_receiver(compiler, own))
        cshim_emit_reduce(compiler, CSHIM_MESSAGE_PARTS, (unsigned)row->ranks, &whole,
                          CSHIM_TO_RESULT);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
}
