/* SPDX-License-Identifier: Apache-2.0 */
/* two_shot: each peer owns a chunk of the segment. Each peer sends its contribution to each chunk
 * to the chunk's owner. The owner reduces the contributions in peer order, encodes the reduced
 * chunk once and sends it to all peers, in a reduce to the root; in a reduce-scatter it only writes
 * the sum to its result. In an all-reduce each of the p peers sends at most 2 (p - 1) messages in
 * each segment, and a value is rounded twice.
 *
 * Buffers: contributions[q], peer q's contribution to this peer's chunk; reduced[q], the reduced
 * chunk of peer q; outgoing[q], this peer's contribution to the chunk of peer q. Chunks may be
 * empty. */
#include "shim/core/compiler.h"

/* Returns true if, in host memory, contributions and reduced chunks are both unencoded (raw) and
 * the call has no blocks. Then an owner adds its own elements from where they are instead of from
 * a message, and, if it is a receiver, writes the reduced chunk directly to its result instead of
 * decoding it. */
static bool adds_at_home(const struct cshim_compiler *compiler)
{
    const struct cshim_plan *plan = compiler->plan;
    return plan->codec == CSHIM_CODEC_RAW && plan->gather_codec == CSHIM_CODEC_RAW &&
           plan->schedule->division == CSHIM_CHUNKS && !plan->library->on_device;
}

static void reduce_own_chunk(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range own = cshim_segment_owned(compiler->segment, row->rank);
    const uint64_t reduced = cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, row->rank);
    const uint64_t outgoing = cshim_slot(compiler, CSHIM_ROW, CSHIM_OUTGOING, row->rank);
    const bool at_home = adds_at_home(compiler);
    if (own.length == 0)
        return;
    for (int from = 0; from < row->ranks; from++) {
        if (from == row->rank && at_home)
            cshim_emit_read_own(compiler, &own, (unsigned)from);
        else
            cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, from, own.length,
                            cshim_contributions(compiler, from), outgoing, (unsigned)from);
    }
    if (compiler->plan->collective == CSHIM_REDUCE_SCATTER) {
        cshim_emit_reduce(compiler, CSHIM_MESSAGE_PARTS, (unsigned)row->ranks, &own,
                          CSHIM_TO_RESULT);
        return;
    }
    cshim_emit_message(compiler, CSHIM_MESSAGE_SUMS, -1, own.length, reduced);
    cshim_emit_reduce_to_message(compiler, CSHIM_MESSAGE_SUMS, (unsigned)row->ranks, &own,
                                 at_home && cshim_is_receiver(compiler, row->rank));
    cshim_emit_sends(compiler, CSHIM_MESSAGE_SUMS, reduced);
}

void cshim_compile_two_shot(struct cshim_compiler *compiler)
{
    const int own = compiler->role->groups[CSHIM_ROW].rank;
    const bool at_home = adds_at_home(compiler), is_receiver = cshim_is_receiver(compiler, own);
    cshim_emit_receives(compiler, is_receiver);
    cshim_emit_contributions(compiler, !at_home);
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    reduce_own_chunk(compiler);
    if (is_receiver) {
        cshim_emit_wait_received(compiler, CSHIM_MESSAGE_SUMS, CSHIM_PIPELINE_DEPTH);
        cshim_emit_decodes(compiler, CSHIM_MESSAGE_SUMS, CSHIM_REDUCED, at_home ? own : -1);
    }
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
    if (compiler->plan->collective != CSHIM_REDUCE_SCATTER)
        cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_SUMS);
}
