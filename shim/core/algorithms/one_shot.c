/* SPDX-License-Identifier: Apache-2.0 */
/* one_shot: each peer sends its contribution to the whole segment to all peers; in a reduce, to the
 * root. Each receiver adds all contributions in peer order. Each of the p peers sends at most p - 1
 * messages in each segment; each contribution is rounded once.
 *
 * Buffers: contributions[q], the contribution of peer q; this peer's own is also the message that
 * it sends. */
#include "shim/core/compiler.h"

void cshim_compile_one_shot(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range whole = {0, compiler->segment->share.length};
    const int own = row->rank;
    const bool is_receiver = cshim_is_receiver(compiler, own);
    if (is_receiver)
        cshim_emit_receives(compiler, false);
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, -1, whole.length,
                       cshim_contributions(compiler, own));
    cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &whole, 0);
    cshim_emit_sends(compiler, CSHIM_MESSAGE_PARTS, cshim_contributions(compiler, own));
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    for (int from = 0; from < row->ranks && is_receiver; from++)
        cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, from, whole.length,
                        cshim_contributions(compiler, from), cshim_contributions(compiler, from),
                        (unsigned)from);
    if (is_receiver)
        cshim_emit_reduce(compiler, CSHIM_MESSAGE_PARTS, (unsigned)row->ranks, &whole,
                          CSHIM_TO_RESULT);
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
}
