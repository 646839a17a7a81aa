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

static uint64_t reduced(const struct cshim_compiler *compiler, int index)
{
    return cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, index);
}

static uint64_t outgoing(const struct cshim_compiler *compiler, int index)
{
    return cshim_slot(compiler, CSHIM_ROW, CSHIM_OUTGOING, index);
}

/* Returns true if a peer receives the reduced chunks of the others. */
static bool is_receiver(const struct cshim_compiler *compiler, int peer)
{
    const enum cshim_collective collective = compiler->plan->collective;
    return collective == CSHIM_ALLREDUCE ||
           (collective == CSHIM_REDUCE && (uint32_t)peer == compiler->role->root);
}

/* Returns true if, in host memory, contributions and reduced chunks are both unencoded (raw) and
 * the call has no blocks. Then an owner adds its own elements from where they are instead of from
 * a message, and, if it is a receiver, writes the reduced chunk directly to its result. */
static bool adds_at_home(const struct cshim_compiler *compiler)
{
    const struct cshim_plan *plan = compiler->plan;
    return plan->codec == CSHIM_CODEC_RAW && plan->gather_codec == CSHIM_CODEC_RAW &&
           plan->schedule->division == CSHIM_CHUNKS && !plan->library->on_device;
}

static void contribute(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range own = cshim_segment_owned(compiler->segment, row->rank);
    for (int i = 1; i < row->ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from, own.length,
                           cshim_contributions(compiler, from));
        if (is_receiver(compiler, row->rank))
            cshim_emit_receive(compiler, CSHIM_MESSAGE_SUMS, from,
                               cshim_segment_owned(compiler->segment, from).length,
                               reduced(compiler, from));
    }
    for (int i = 1; i < row->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        const struct cshim_range chunk = cshim_segment_owned(compiler->segment, to);
        if (chunk.length == 0)
            continue;
        cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, to, chunk.length, outgoing(compiler, to));
        cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &chunk, 0);
        cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, to, outgoing(compiler, to));
    }
    if (own.length == 0 || adds_at_home(compiler))
        return;
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, row->rank, own.length,
                       cshim_contributions(compiler, row->rank));
    cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &own, 0);
}

static void reduce_own_chunk(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const struct cshim_range own = cshim_segment_owned(compiler->segment, row->rank);
    const bool at_home = adds_at_home(compiler);
    if (own.length == 0)
        return;
    for (int from = 0; from < row->ranks; from++) {
        if (from == row->rank && at_home)
            cshim_emit_read_own(compiler, &own, (unsigned)from);
        else
            cshim_emit_read(compiler, CSHIM_MESSAGE_PARTS, from, own.length,
                            cshim_contributions(compiler, from), outgoing(compiler, row->rank),
                            (unsigned)from);
    }
    if (compiler->plan->collective == CSHIM_REDUCE_SCATTER) {
        cshim_emit_reduce(compiler, CSHIM_MESSAGE_PARTS, (unsigned)row->ranks, &own,
                          CSHIM_TO_RESULT);
        return;
    }
    cshim_emit_message(compiler, CSHIM_MESSAGE_SUMS, -1, own.length, reduced(compiler, row->rank));
    cshim_emit_reduce_to_message(compiler, CSHIM_MESSAGE_SUMS, (unsigned)row->ranks, &own,
                                 at_home && is_receiver(compiler, row->rank));
    for (int i = 1; i < row->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        if (is_receiver(compiler, to))
            cshim_emit_send(compiler, CSHIM_MESSAGE_SUMS, to, reduced(compiler, row->rank));
    }
}

/* Decodes all reduced chunks except, if adds_at_home(), this peer's own, which reduce_own_chunk()
 * has written to the result. */
static void decode_chunks(struct cshim_compiler *compiler)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    for (int from = 0; from < row->ranks; from++) {
        const struct cshim_range chunk = cshim_segment_owned(compiler->segment, from);
        if (chunk.length == 0 || (from == row->rank && adds_at_home(compiler)))
            continue;
        cshim_emit_read(compiler, CSHIM_MESSAGE_SUMS, from, chunk.length, reduced(compiler, from),
                        reduced(compiler, from), 0);
        cshim_emit_decode(compiler, CSHIM_MESSAGE_SUMS, &chunk);
    }
}

void cshim_compile_two_shot(struct cshim_compiler *compiler)
{
    contribute(compiler);
    cshim_emit_wait_received(compiler, CSHIM_MESSAGE_PARTS, 1);
    reduce_own_chunk(compiler);
    if (is_receiver(compiler, compiler->role->groups[CSHIM_ROW].rank)) {
        cshim_emit_wait_received(compiler, CSHIM_MESSAGE_SUMS, CSHIM_PIPELINE_DEPTH);
        decode_chunks(compiler);
    }
    cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_PARTS);
    if (compiler->plan->collective != CSHIM_REDUCE_SCATTER)
        cshim_emit_wait_sent(compiler, CSHIM_MESSAGE_SUMS);
}
