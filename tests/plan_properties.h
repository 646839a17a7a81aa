/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of every plan that compresses: it keeps the limits, its cuts cover the elements
 * exactly, and its bytes are those of all messages counted one by one (for `cast`, those of a
 * ring). Does not count the messages of very long calls. The including program (a unit test, a fuzz
 * target, or plan_figures) defines PLAN_CHECK(condition) before. */
#ifndef PLAN_PROPERTIES_H
#define PLAN_PROPERTIES_H

#include <math.h>

#include "shim/core/plan.h"

/* Largest message of MPI, of MPI's all-reduces that ranks of a node read in place, and of gloo. */
#define MPI_PIECE_MAX ((uint64_t)60 << 10)
#define NODE_PIECE_MAX ((uint64_t)96 << 10)
#define GLOO_PIECE_MAX ((uint64_t)256 << 10)

/* Checks that chunk `index` of `count` elements ends where the next one begins, or at `count`, that
 * it consists of whole grains unless it is the last, and that it is not too long. */
static inline void check_chunk(uint64_t count, uint32_t ranks, uint32_t index)
{
    const struct cshim_range chunk = cshim_plan_chunk(count, ranks, index);
    const uint64_t end = chunk.begin + chunk.length;
    PLAN_CHECK(index > 0 || chunk.begin == 0);
    PLAN_CHECK(chunk.begin <= count && chunk.length <= count - chunk.begin);
    PLAN_CHECK(end ==
               (index + 1 < ranks ? cshim_plan_chunk(count, ranks, index + 1).begin : count));
    PLAN_CHECK(end == count || chunk.length % CSHIM_GRAIN == 0);
    PLAN_CHECK(chunk.length <= count / ranks + 1 + CSHIM_GRAIN);
}

static inline void check_chunks(uint64_t count, uint32_t ranks, uint32_t any_index)
{
    for (uint32_t index = 0; index < ranks && index < 16; index++)
        check_chunk(count, ranks, index);
    check_chunk(count, ranks, any_index % ranks);
    check_chunk(count, ranks, ranks - 1);
}

static inline bool has_blocks(const struct cshim_plan *plan)
{
    return plan->collective == CSHIM_REDUCE_SCATTER || plan->collective == CSHIM_ALLGATHER ||
           plan->collective == CSHIM_ALLTOALL;
}

static inline bool is_grid(const struct cshim_plan *plan)
{
    return plan->algorithm == CSHIM_ALGORITHM_GRID;
}

/* Returns true if the peers are nodes, in which each rank has a share of the elements. */
static inline bool by_nodes(const struct cshim_plan *plan, const struct cshim_call *call)
{
    const bool can = call->nodes > 3 && call->ranks > call->nodes && call->ranks_per_node > 0;
    return plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL ||
           (is_grid(plan) && can && !call->nonblocking);
}

/* Returns the number of chunks in a share; in a grid that of pieces, one for each row of each
 * column. */
static inline uint64_t chunks_in_share(const struct cshim_plan *plan)
{
    if (is_grid(plan))
        return (uint64_t)plan->grid.columns * plan->grid.rows;
    return plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT && !has_blocks(plan) ? 1 : plan->peers;
}

/* Checks that the plan's algorithm, peers, shares and quantizations are those that
 * compshim-policy(5) allows for the collective. */
static inline void check_algorithm(const struct cshim_plan *plan, const struct cshim_call *call)
{
    PLAN_CHECK(plan->algorithm > CSHIM_ALGORITHM_AUTO && plan->algorithm < CSHIM_ALGORITHM_COUNT);
    PLAN_CHECK(plan->peers == (by_nodes(plan, call) ? call->nodes : call->ranks));
    PLAN_CHECK(plan->shares == (by_nodes(plan, call) ? call->ranks_per_node : 1));
    if (is_grid(plan))
        PLAN_CHECK(call->collective == CSHIM_ALLREDUCE && call->library != CSHIM_NCCL &&
                   plan->peers > 3 && plan->quantizations == 3);
    const bool is_even = call->ranks == (uint64_t)call->nodes * call->ranks_per_node;
    const bool by_node =
        plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL &&
        (call->collective == CSHIM_REDUCE || (call->collective == CSHIM_REDUCE_SCATTER && is_even));
    if ((call->collective != CSHIM_ALLREDUCE && !by_node) || (call->nonblocking && !is_grid(plan)))
        PLAN_CHECK(plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
                   plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT);
    if (call->collective == CSHIM_REDUCE_SCATTER)
        PLAN_CHECK((plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT || by_node) &&
                   plan->quantizations == 1);
    if (call->collective == CSHIM_BROADCAST)
        PLAN_CHECK(plan->quantizations == 1);
    if (call->collective == CSHIM_ALLGATHER || call->collective == CSHIM_ALLTOALL)
        PLAN_CHECK(plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT && plan->quantizations == 1);
}

/* Checks that the roundings of all contributions, of a grid's row sums and of the result add up to
 * at most abs_error times the number of ranks, in data movement to at most abs_error, and that a
 * step larger by 2^-22 would exceed that. */
static inline void check_step(const struct cshim_plan *plan)
{
    const double allowed = plan->rule->abs_error;
    const bool adds = cshim_shapes[plan->collective].adds;
    const double rows = is_grid(plan) ? plan->grid.rows : 0;
    const double lost =
        0.5 * (double)plan->step * (adds ? (plan->ranks + 1.0 + rows) / plan->ranks : 1);
    PLAN_CHECK((plan->step > 0) == (allowed > 0));
    PLAN_CHECK(lost <= allowed && (allowed <= 0 || lost * (1 + 0x1p-22) > allowed));
}

/* Checks the cuts of calls with blocks: a segment has a chunk of each block. */
static inline void check_block_cuts(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    PLAN_CHECK(plan->block >= (plan->count - 1) / plan->ranks + 1 && plan->block <= plan->count);
    PLAN_CHECK((plan->block - 1) / chunk == plan->segments - 1);
    PLAN_CHECK(chunk - 1 < plan->block - 1 + CSHIM_GRAIN);
}

static inline void check_cuts(const struct cshim_plan *plan, uint32_t any_index)
{
    const uint64_t chunks = chunks_in_share(plan) * plan->shares;
    PLAN_CHECK(plan->segment > 0 && plan->segment % (chunks * CSHIM_GRAIN) == 0);
    PLAN_CHECK(plan->segments > 0);
    if (has_blocks(plan)) {
        check_block_cuts(plan);
        return;
    }
    PLAN_CHECK((plan->count - 1) / plan->segment == plan->segments - 1);
    PLAN_CHECK(plan->segment - 1 < plan->count - 1 + chunks * CSHIM_GRAIN);
    const uint64_t last = plan->count - (plan->segments - 1) * plan->segment;
    const uint64_t lengths[] = {plan->count < plan->segment ? plan->count : plan->segment, last};
    for (size_t i = 0; i < 2; i++) {
        check_chunks(lengths[i], plan->shares, any_index);
        const uint64_t share =
            cshim_plan_chunk(lengths[i], plan->shares, any_index % plan->shares).length;
        check_chunks(share, is_grid(plan) ? plan->grid.columns : plan->peers, any_index);
    }
}

/* Returns a plan in which contributions are encoded as reduced chunks are. */
static inline struct cshim_plan plan_of_sums(const struct cshim_plan *plan)
{
    struct cshim_plan sums = *plan;
    sums.codec = plan->gather_codec;
    return sums;
}

static inline uint64_t message(const struct cshim_plan *plan, uint64_t elements)
{
    return elements == 0
               ? 0
               : CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

/* Checks memory limits. On a GPU, messages are as long as the scratch allows. */
static inline void check_memory(const struct cshim_plan *plan, const struct cshim_call *call)
{
    const bool on_gpu = call->library == CSHIM_NCCL;
    const uint64_t chunk = plan->segment / (chunks_in_share(plan) * plan->shares);
    const uint64_t most = CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t in_flight = plan->segments < most ? plan->segments : most;
    PLAN_CHECK(plan->scratch_bytes <= (on_gpu ? CSHIM_NCCL_SCRATCH_LIMIT : CSHIM_SCRATCH_LIMIT));
    PLAN_CHECK(plan->scratch_bytes == in_flight * plan->slot_bytes);
    const struct cshim_plan sums = plan_of_sums(plan);
    const uint64_t part = message(plan, chunk), sum = message(&sums, chunk);
    const uint64_t longest = part > sum ? part : sum;
    const uint64_t rows = is_grid(plan) ? plan->grid.rows : 1;
    PLAN_CHECK(plan->piece_bytes == CSHIM_HEADER_BYTES + rows * (longest - CSHIM_HEADER_BYTES));
    PLAN_CHECK(plan->column_bytes == (is_grid(plan) ? longest : 0));
    const uint64_t piece_max = call->library == CSHIM_GLOO                 ? GLOO_PIECE_MAX
                               : cshim_plan_is_read(call, plan->algorithm) ? NODE_PIECE_MAX
                                                                           : MPI_PIECE_MAX;
    PLAN_CHECK(plan->piece_bytes <= piece_max || chunk == CSHIM_GRAIN || on_gpu);
    PLAN_CHECK(plan->slot_bytes >= plan->piece_bytes + plan->stage_bytes);
    if (is_grid(plan)) {
        const uint64_t longest_row = (plan->peers - 1) / rows + 1;
        const uint64_t depth = rows + (plan->grid.outside > 0);
        PLAN_CHECK(plan->slot_bytes == 3 * longest_row * plan->piece_bytes +
                                           3 * depth * plan->column_bytes + plan->stage_bytes);
    } else {
        PLAN_CHECK(plan->piece_bytes > 0 &&
                   (plan->slot_bytes - plan->stage_bytes) % plan->piece_bytes == 0);
    }
    if (plan->collective == CSHIM_ALLREDUCE && !is_grid(plan) &&
        plan->algorithm != CSHIM_ALGORITHM_CAST && !on_gpu) {
        const uint64_t peers = plan->peers;
        const uint64_t pieces = chunks_in_share(plan) == 1 ? peers + 1 : 3 * peers + 1;
        PLAN_CHECK(plan->slot_bytes == pieces * plan->piece_bytes + plan->stage_bytes);
    }
    const uint64_t staged = chunks_in_share(plan) *
                            (has_blocks(plan) ? plan->shares + (on_gpu ? 0 : 1) : 1) * chunk *
                            cshim_dtype_bytes(plan->dtype);
    PLAN_CHECK(plan->stage_bytes == (plan->schedule->staged ? staged : 0));
}

/* Checks that each peer is in one row, and in at most one column; that row lengths differ by at
 * most one; and that each column with messages has a peer of each row. If owners are outside
 * (grid.h), checks that there are grid->outside of them, one for each column with messages. */
static inline void check_places(const struct cshim_grid *grid)
{
    uint32_t row, column, place, owners = 0, members = 0;
    PLAN_CHECK(grid->rows > 1 && grid->rows <= grid->columns);
    PLAN_CHECK((uint64_t)grid->rows * grid->columns <= grid->peers);
    for (uint32_t peer = 0; peer < grid->peers; peer++) {
        const bool has_column = cshim_grid_find(grid, peer, &row, &column, &place);
        const uint32_t first = cshim_grid_row(grid, row), end = cshim_grid_row(grid, row + 1);
        PLAN_CHECK(first <= peer && peer < end && end - first - grid->columns <= 1);
        PLAN_CHECK(!has_column || cshim_grid_peer(grid, column, place) == peer);
        members += has_column && place < grid->rows;
        owners += has_column && place == grid->rows;
    }
    PLAN_CHECK(owners == grid->outside);
    PLAN_CHECK(members == (owners > 0 ? owners : grid->columns) * grid->rows);
}

/* Returns the bytes that the peers of a grid exchange for a share, in one direction: those of the
 * pieces within columns, and those of the chunks within rows. */
static inline uint64_t grid_bytes(const struct cshim_plan *plan, uint32_t share, uint64_t elements)
{
    const struct cshim_grid *grid = &plan->grid;
    uint64_t bytes = 0, all = 0;
    for (uint32_t column = 0; column < grid->columns; column++) {
        const struct cshim_range chunk = cshim_plan_owned(elements, grid->columns, share, column);
        uint64_t in_row = 0, of_chunk = 0;
        for (uint32_t place = 0; place < grid->rows + (grid->outside > 0); place++) {
            const struct cshim_range piece = cshim_grid_piece(grid, elements, share, column, place);
            const uint64_t of_piece = message(plan, piece.length);
            PLAN_CHECK(piece.begin >= chunk.begin && piece.begin <= chunk.begin + chunk.length &&
                       piece.length <= chunk.begin + chunk.length - piece.begin);
            of_chunk += piece.length;
            in_row += of_piece - (piece.length > 0 ? CSHIM_HEADER_BYTES : 0);
            bytes += of_piece * (place == grid->rows ? grid->rows : grid->rows - 1);
        }
        PLAN_CHECK(of_chunk == chunk.length &&
                   (chunk.length == 0 || grid->outside == 0 || column < grid->outside));
        all += chunk.length;
        if (chunk.length > 0)
            bytes += (grid->peers - grid->rows) * (CSHIM_HEADER_BYTES + in_row);
    }
    PLAN_CHECK(all == elements);
    return bytes;
}

/* Returns the bytes of the messages of one segment, each counted once; in a grid those of one
 * direction. */
static inline uint64_t segment_bytes(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < plan->shares; s++) {
        const uint64_t share = cshim_plan_chunk(elements, plan->shares, s).length;
        if (is_grid(plan)) {
            bytes += grid_bytes(plan, s, share);
            continue;
        }
        if (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT) {
            bytes += message(plan, share);
            continue;
        }
        for (uint32_t peer = 0; peer < plan->peers; peer++)
            bytes += message(plan, cshim_plan_chunk(share, plan->peers, peer).length);
    }
    return bytes;
}

/* Returns the bytes of a call's messages, each counted once, or 0 if there may be more than `most`
 * messages (`most` is below 2^20). */
static inline uint64_t count_messages(const struct cshim_plan *plan, uint64_t most)
{
    uint64_t bytes = 0;
    if (plan->segments > most || plan->peers > most || plan->shares > most ||
        plan->segments * plan->shares * plan->peers > most)
        return 0;
    if (has_blocks(plan)) { /* one block per rank: may be more than peers times shares */
        if (plan->ranks > most || plan->segments * plan->ranks > most)
            return 0;
        const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
        for (uint64_t block = 0; block < plan->count; block += plan->block) {
            const uint64_t end =
                plan->count - block < plan->block ? plan->count : block + plan->block;
            for (uint64_t at = block; at < end; at += chunk)
                bytes += message(plan, end - at < chunk ? end - at : chunk);
        }
        return bytes;
    }
    for (uint64_t at = 0; at < plan->count; at += plan->segment)
        bytes += segment_bytes(plan,
                               plan->count - at < plan->segment ? plan->count - at : plan->segment);
    return bytes;
}

/* Returns the bytes of the reduced chunks that a reduce's root receives from the owners, or of the
 * contributions that a broadcast's root sends to them. With a staged schedule, each node's owners
 * are taken to have equally many bytes, and those on the root's node exchange none of them. */
static inline uint64_t messages_with_root(const struct cshim_plan *plan, uint64_t all)
{
    uint64_t bytes = 0;
    if (plan->schedule->staged)
        return all - all / plan->peers;
    for (uint64_t at = 0; at < plan->count; at += plan->segment) {
        const uint64_t left = plan->count - at;
        const uint64_t elements = left < plan->segment ? left : plan->segment;
        for (uint32_t owner = 0; owner < plan->peers; owner++)
            if (owner != plan->root)
                bytes += message(plan, cshim_plan_chunk(elements, plan->peers, owner).length);
    }
    return bytes;
}

/* Returns the product, or the largest number if it overflows. */
static inline uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static inline void check_bytes(const struct cshim_plan *plan, const struct cshim_call *call,
                               uint64_t most)
{
    const bool gathered = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT;
    const unsigned passes = plan->collective == CSHIM_ALLREDUCE ? 2 : 1;
    const uint64_t ring = passes * ((uint64_t)plan->ranks - 1);
    PLAN_CHECK(plan->bytes_native == product(ring, call->bytes));
    PLAN_CHECK(plan->bytes_network <= plan->bytes_wire && plan->bytes_wire > 0);
    if (plan->algorithm == CSHIM_ALGORITHM_CAST) {
        const unsigned bits = cshim_codec_info(plan->codec)->element_bits;
        const uint64_t element = bits != 0 ? bits / 8 : cshim_dtype_bytes(plan->dtype);
        PLAN_CHECK(plan->bytes_wire == product(ring, product(plan->count, element)));
        return;
    }
    const uint64_t times = is_grid(plan) ? 1 : plan->peers - 1;
    const uint64_t all = count_messages(plan, most);
    uint64_t bytes = all * times;
    const struct cshim_plan sums = plan_of_sums(plan);
    if (bytes == 0)
        return;
    if (is_grid(plan))
        check_places(&plan->grid);
    if (plan->collective == CSHIM_ALLREDUCE && gathered)
        bytes *= plan->ranks;
    else if (plan->collective == CSHIM_ALLREDUCE)
        bytes += count_messages(&sums, most) * times;
    if ((plan->collective == CSHIM_REDUCE || plan->collective == CSHIM_BROADCAST) && !gathered)
        bytes += messages_with_root(plan, all);
    if (plan->schedule->staged) {
        PLAN_CHECK(plan->bytes_network == bytes);
        const uint64_t inside =
            product(passes * (uint64_t)(plan->ranks - plan->peers), call->bytes);
        bytes = inside > UINT64_MAX - bytes ? UINT64_MAX : bytes + inside;
        if (plan->collective == CSHIM_REDUCE) /* the root's node gathers its shares */
            bytes += call->bytes - call->bytes / plan->shares;
    }
    PLAN_CHECK(plan->bytes_wire == bytes);
}

/* Checks a plan that compresses a call of `count` elements. Checks the first chunks, the last one
 * and `any_index`, and counts messages if there are at most `most`. */
static inline void check_plan(const struct cshim_plan *plan, const struct cshim_call *call,
                              uint64_t count, uint32_t any_index, uint64_t most)
{
    PLAN_CHECK(plan->reason == CSHIM_REASON_COMPRESS);
    PLAN_CHECK(plan->codec == plan->rule->codec && plan->dtype == call->dtype);
    PLAN_CHECK(plan->ranks == call->ranks && plan->count == count);
    PLAN_CHECK(plan->collective == call->collective);
    check_algorithm(plan, call);
    PLAN_CHECK(plan->peers > 1 && plan->shares > 0);
    PLAN_CHECK((uint64_t)plan->peers * plan->shares <= plan->ranks);
    PLAN_CHECK(plan->quantizations > 0);
    PLAN_CHECK(isfinite(plan->expected_error) && plan->expected_error >= 0);
    check_cuts(plan, any_index);
    check_step(plan);
    check_memory(plan, call);
    check_bytes(plan, call, most);
}

#endif
