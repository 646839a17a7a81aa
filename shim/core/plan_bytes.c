/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/plan_bytes.h"

#include <math.h>

/* Adds bytes; the sum saturates at UINT64_MAX, as in cshim_multiply(). */
static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Returns the bytes of a message: header and encoded elements; 0 without elements, as none is sent.
 */
static uint64_t message_bytes(const struct cshim_plan *plan, uint64_t elements)
{
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

uint64_t cshim_plan_pieces(const struct cshim_plan *plan)
{
    return plan->schedule->division == CSHIM_WHOLE ? 1
                                                   : (uint64_t)plan->grid.columns * plan->grid.rows;
}

/* Messages that together send each element once. In rows, each of `chunks` messages has a chunk; in
 * the columns of a grid, each of `pieces` messages has a piece of a chunk. */
struct messages {
    uint64_t encoded; /* bytes without headers */
    uint64_t chunks;
    uint64_t pieces;
};

/* Returns the sum of the messages of `parts` equal parts and those of a shorter last part. */
static struct messages times(uint64_t parts, struct messages each, struct messages last)
{
    return (struct messages){add(cshim_multiply(parts, each.encoded), last.encoded),
                             add(cshim_multiply(parts, each.chunks), last.chunks),
                             add(cshim_multiply(parts, each.pieces), last.pieces)};
}

/* Levels at which a segment is cut: into shares, these into chunks, and these into pieces. */
enum cut { SHARES, CHUNKS, PIECES, CUTS };

static struct messages cut_messages(const struct cshim_plan *plan, uint64_t elements, enum cut cut)
{
    const uint32_t chunks = plan->schedule->division == CSHIM_WHOLE ? 1 : plan->grid.columns;
    const uint32_t parts[CUTS] = {plan->shares, chunks, plan->grid.rows};
    if (elements == 0)
        return (struct messages){0};
    if (cut == CUTS)
        return (struct messages){cshim_encoded_bytes(plan->codec, plan->dtype, elements), 0, 1};
    const uint64_t part = cshim_plan_chunk(elements, parts[cut], 0).length;
    struct messages messages = times(elements / part, cut_messages(plan, part, cut + 1),
                                     cut_messages(plan, elements % part, cut + 1));
    if (cut == PIECES)
        messages.chunks = 1;
    return messages;
}

/* Returns the messages of a block of `elements` elements. A segment has at most one chunk of it. */
static struct messages block_messages(const struct cshim_plan *plan, uint64_t elements)
{
    const uint64_t chunk = plan->segment / (cshim_plan_pieces(plan) * plan->shares);
    return times(elements / chunk, cut_messages(plan, chunk, PIECES),
                 cut_messages(plan, elements % chunk, PIECES));
}

/* Returns the messages of a whole call: of its segments or, in block-partitioned collectives, of
 * its blocks. Segments or blocks before the last are taken to be equally long. */
static struct messages call_messages(const struct cshim_plan *plan)
{
    if (plan->block > 0)
        return times(plan->count / plan->block, block_messages(plan, plan->block),
                     block_messages(plan, plan->count % plan->block));
    return times(plan->count / plan->segment, cut_messages(plan, plan->segment, SHARES),
                 cut_messages(plan, plan->count % plan->segment, SHARES));
}

/* Returns the bytes that sending `messages` takes. In each row all peers but one send (or receive)
 * each chunk; each piece is sent (or received) by the column's peer in each row, except by its
 * owner. */
static uint64_t exchanged(const struct cshim_plan *plan, const struct messages *messages)
{
    const struct cshim_grid *grid = &plan->grid;
    const uint64_t rows =
        add(messages->encoded, cshim_multiply(messages->chunks, CSHIM_HEADER_BYTES));
    const uint64_t columns =
        add(messages->encoded, cshim_multiply(messages->pieces, CSHIM_HEADER_BYTES));
    return add(cshim_multiply(grid->peers - grid->rows, rows),
               cshim_multiply(cshim_grid_depth(grid) - 1, columns));
}

/* Returns the bytes of the root's own chunks, out of `all`, the bytes of all chunks: the root of a
 * reduce does not send them to itself, nor does the root of a broadcast. If staged, the root's node
 * is unknown, so each node is assumed to have the same part. */
static uint64_t root_messages(const struct cshim_plan *plan, uint64_t all)
{
    if (plan->schedule->staged)
        return all / plan->peers;
    const uint64_t left = plan->count % plan->segment;
    const uint64_t chunk = cshim_plan_chunk(plan->segment, plan->peers, plan->root).length;
    const uint64_t last = cshim_plan_chunk(left, plan->peers, plan->root).length;
    return add(cshim_multiply(plan->count / plan->segment, message_bytes(plan, chunk)),
               message_bytes(plan, last));
}

/* Counts the bytes of cast. The library's all-reduce is assumed to work along a tree of ranks - 1
 * links, nodes - 1 of them between nodes, and to send partial sums, then the results over each. */
static void count_cast_bytes(struct cshim_plan *plan, const struct cshim_call *call)
{
    const uint64_t hops = call->nodes > 1 ? call->nodes - 1 : 0;
    const unsigned narrowed = cshim_codec_info(plan->codec)->element_bits / 8;
    const uint64_t element = narrowed != 0 ? narrowed : cshim_dtype_bytes(plan->dtype);
    plan->bytes_wire =
        cshim_multiply(2 * ((uint64_t)plan->peers - 1), cshim_multiply(plan->count, element));
    plan->bytes_network = cshim_multiply(2 * hops, cshim_multiply(plan->count, element));
}

/* Returns number * part / whole, rounded down, without overflow. */
static uint64_t share_of(uint64_t number, uint64_t part, uint64_t whole)
{
    return add(cshim_multiply(number / whole, part), number % whole * part / whole);
}

void cshim_plan_count_bytes(struct cshim_plan *plan, const struct cshim_call *call)
{
    const struct cshim_schedule *schedule = plan->schedule;
    const struct cshim_shape *shape = &cshim_shapes[plan->collective];
    const bool has_source = plan->collective == CSHIM_BROADCAST;
    const bool is_whole = schedule->division == CSHIM_WHOLE;
    /* Reduced or forwarded chunks are sent to all peers, or to the root of a reduce. */
    const bool has_chunks = schedule->division == CSHIM_CHUNKS;
    const bool to_all = has_chunks && shape->is_shared, to_root = has_chunks && !shape->is_shared;
    const uint64_t others = plan->peers - 1;
    /* Number of messages of a sender that leave its node: one for each rank of the other nodes, or
     * one for each of these nodes if the library broadcasts the message. */
    const bool once = has_source && plan->library->has_own_broadcast;
    const uint64_t apart = call->nodes <= 1 ? 0
                           : once           ? call->nodes - 1
                                            : call->ranks - call->ranks / call->nodes;
    plan->bytes_native =
        cshim_multiply(shape->ring_passes * ((uint64_t)plan->ranks - 1), call->bytes);
    if (schedule->compile == NULL) {
        count_cast_bytes(plan, call);
        return;
    }
    const struct messages parts = call_messages(plan);
    const uint64_t part_bytes = exchanged(plan, &parts);
    struct cshim_plan gathered = *plan;
    gathered.codec = plan->gather_codec;
    const struct messages sums = call_messages(&gathered);
    /* part_bytes: the contributions that owners get from all others or, in data movement, that
     * senders send to all others. everywhere: in a one_shot all-reduce each rank owns all chunks.
     * spread: the root of a two_shot broadcast sends each owner one contribution instead. */
    const bool spread = has_source && has_chunks;
    const bool everywhere = is_whole && shape->is_shared && !has_source;
    const uint64_t senders = spread ? 0 : everywhere ? plan->ranks : 1;
    uint64_t bytes = add(cshim_multiply(senders, part_bytes), to_all ? exchanged(plan, &sums) : 0);
    if (spread || to_root) {
        const uint64_t all = parts.encoded + parts.chunks * CSHIM_HEADER_BYTES;
        bytes = add(bytes, all - root_messages(plan, all));
    }
    plan->bytes_wire = plan->bytes_network = bytes;
    if (schedule->staged) {
        const uint64_t passes = to_all ? 2 : 1;
        plan->bytes_wire =
            add(bytes, cshim_multiply(passes * ((uint64_t)plan->ranks - plan->peers), call->bytes));
        if (to_root) /* only the root's node gathers */
            plan->bytes_wire = add(plan->bytes_wire, call->bytes - call->bytes / plan->shares);
    } else {
        plan->bytes_network = share_of(bytes, apart, others);
    }
}

double cshim_plan_busiest(const struct cshim_plan *plan, uint64_t elements, double *mean)
{
    const struct cshim_grid *grid = &plan->grid;
    const uint64_t share = cshim_plan_chunk(elements, plan->shares, 0).length;
    const uint64_t chunk = cshim_plan_chunk(share, grid->columns, 0).length;
    const uint64_t piece = cshim_plan_chunk(chunk, grid->rows, 0).length;
    const uint64_t chunks = grid->outside > 0
                                ? grid->outside
                                : cshim_divide_up(elements, share) * cshim_divide_up(share, chunk);
    const uint64_t pieces = chunks * cshim_divide_up(chunk, piece);
    const uint64_t owned_chunks = cshim_divide_up(chunks, grid->columns);
    const double chunk_bytes = (double)message_bytes(plan, chunk);
    const double piece_bytes = (double)message_bytes(plan, piece);
    const double all = (double)chunks * chunk_bytes, depth = cshim_grid_depth(grid);
    const double own = (double)owned_chunks * chunk_bytes;
    const double in_row = own * (double)(cshim_divide_up(grid->peers, grid->rows) - 1) + all - own;
    const double in_column = (double)(owned_chunks * cshim_divide_up(chunk, piece)) * piece_bytes;
    const double owned = (double)cshim_divide_up(pieces, (uint64_t)grid->columns * grid->rows);
    *mean = 2 * (all * (grid->peers - grid->rows) + (double)pieces * piece_bytes * (depth - 1)) /
            grid->peers;
    if (grid->rows == 1)
        return in_row;
    if (grid->outside > 0)
        return fmax(in_row + in_column, all + grid->rows * piece_bytes);
    return in_row + in_column + owned * (depth - 2) * piece_bytes;
}
