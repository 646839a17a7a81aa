/* SPDX-License-Identifier: Apache-2.0 */
/* The planner, given any facts that a call can have: limits are kept, the cuts cover the elements
 * exactly, and the bytes are those of the messages counted one by one. */
#include <math.h>

#include "shim/core/plan.h"
#include "tests/fuzz/fuzz.h"

#define PIECE_MAX ((uint64_t)60 << 10)
/* Beyond, messages are not counted one by one. */
#define MESSAGES_COUNTED 512u
/* With fewer ranks a segment of one grain for each fits into the scratch, whatever the codec. */
#define RANKS_THAT_FIT 1000u

static struct cshim_rule take_rule(struct fuzz_input *input)
{
    struct cshim_rule rule = {
        .libraries = UINT32_MAX,
        .collectives = UINT32_MAX,
        .dtypes = UINT32_MAX,
        .ops = UINT32_MAX,
        .max_size = fuzz_take(input, 1) % 4 != 0 ? UINT64_MAX : fuzz_take_any_length(input, 64),
        .min_ranks = 1,
        .max_ranks = UINT32_MAX,
        .min_nodes = 1,
        .max_nodes = UINT32_MAX,
        .codec = (enum cshim_codec_id)(fuzz_take(input, 1) % CSHIM_CODEC_COUNT),
        .algorithm = (enum cshim_algorithm)(fuzz_take(input, 1) % CSHIM_ALGORITHM_COUNT),
    };
    /* The parser takes no other codecs with it. */
    const struct cshim_codec_info *info = cshim_codec_info(rule.codec);
    if (rule.algorithm == CSHIM_ALGORITHM_CAST && info != NULL && info->element_bits != 0 &&
        info->element_bits < 16)
        rule.algorithm = CSHIM_ALGORITHM_AUTO;
    return rule;
}

/* No more elements than 2^63 bytes hold. */
static struct cshim_call take_call(struct fuzz_input *input, uint64_t *count)
{
    static const enum cshim_op ops[] = {CSHIM_SUM, CSHIM_SUM, CSHIM_AVG, CSHIM_OP_OTHER};
    struct cshim_call call = {
        .library = (enum cshim_library)(fuzz_take(input, 1) % CSHIM_LIBRARY_COUNT),
        .op = ops[fuzz_take(input, 1) % 4],
    };
    unsigned dtype = (unsigned)fuzz_take(input, 1) % (CSHIM_DTYPE_COUNT + 1);
    call.dtype = dtype < CSHIM_DTYPE_COUNT ? (enum cshim_dtype)dtype : CSHIM_DTYPE_OTHER;
    uint64_t element = cshim_dtype_bytes(call.dtype) != 0 ? cshim_dtype_bytes(call.dtype) : 1;
    *count = fuzz_take_any_length(input, 64) % (((uint64_t)1 << 63) / element + 1);
    call.bytes = *count * element;
    call.ranks = 1 + (uint32_t)fuzz_take_any_length(input, 31);
    call.nodes = (uint32_t)(fuzz_take_any_length(input, 32) % ((uint64_t)call.ranks + 1));
    if (call.nodes > 0)
        call.ranks_per_node =
            1 + (uint32_t)(fuzz_take_any_length(input, 32) % (call.ranks / call.nodes));
    return call;
}

/* What only some collectives have: the root of a reduce; blocks that may be longer than an even
 * cut, but are none longer than the elements. */
static void take_collective(struct fuzz_input *input, uint64_t count, struct cshim_call *call)
{
    call->collective = (enum cshim_collective)(fuzz_take(input, 1) % CSHIM_COLLECTIVE_COUNT);
    call->nonblocking = fuzz_take(input, 1) % 2 != 0;
    if (call->collective == CSHIM_REDUCE)
        call->root = (uint32_t)fuzz_take(input, 4) % call->ranks;
    if (call->collective != CSHIM_REDUCE_SCATTER || count == 0)
        return;
    const uint64_t even = (count - 1) / call->ranks + 1;
    const uint64_t longer = fuzz_take_any_length(input, 64);
    call->block = fuzz_take(input, 1) % 2 == 0 ? 0 : even + longer % (count - even + 1);
}

static void check_not_compressed(const struct cshim_plan *plan)
{
    FUZZ_CHECK(plan->reason < CSHIM_REASON_COUNT && plan->codec == CSHIM_CODEC_NONE);
    FUZZ_CHECK(plan->segments == 0 && plan->scratch_bytes == 0 && plan->bytes_wire == 0);
}

/* Chunks `index` and the next of count elements follow each other, are whole grains but for the
 * last, and end with the elements. */
static void check_chunk(uint64_t count, uint32_t ranks, uint32_t index)
{
    uint64_t begin, length, next_begin = count, next_length;
    cshim_plan_chunk(count, ranks, index, &begin, &length);
    if (index + 1 < ranks)
        cshim_plan_chunk(count, ranks, index + 1, &next_begin, &next_length);
    FUZZ_CHECK(index > 0 || begin == 0);
    FUZZ_CHECK(begin <= count && length <= count - begin);
    FUZZ_CHECK(begin + length == next_begin);
    FUZZ_CHECK(begin + length == count || length % CSHIM_GRAIN == 0);
    FUZZ_CHECK(length <= count / ranks + 1 + CSHIM_GRAIN);
}

static void check_chunks(uint64_t count, uint32_t ranks, uint32_t any_index)
{
    for (uint32_t index = 0; index < ranks && index < 16; index++)
        check_chunk(count, ranks, index);
    check_chunk(count, ranks, any_index % ranks);
    check_chunk(count, ranks, ranks - 1);
}

static bool has_blocks(const struct cshim_plan *plan)
{
    return plan->collective == CSHIM_REDUCE_SCATTER || plan->collective == CSHIM_ALLGATHER;
}

static uint64_t chunks_in_share(const struct cshim_plan *plan)
{
    return plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT && !has_blocks(plan) ? 1 : plan->peers;
}

/* What a plan may do for each collective, as compshim-policy(5) has it. */
static void check_algorithm(const struct cshim_plan *plan, const struct cshim_call *call)
{
    FUZZ_CHECK(plan->algorithm > CSHIM_ALGORITHM_AUTO && plan->algorithm < CSHIM_ALGORITHM_COUNT);
    if (call->collective != CSHIM_ALLREDUCE || call->nonblocking)
        FUZZ_CHECK(plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
                   plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT);
    if (call->collective == CSHIM_REDUCE_SCATTER)
        FUZZ_CHECK(plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT && plan->quantizations == 1);
    if (call->collective == CSHIM_ALLGATHER)
        FUZZ_CHECK(plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT && plan->quantizations == 1);
}

/* A segment has a chunk of each block. */
static void check_block_cuts(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / plan->peers;
    FUZZ_CHECK(plan->block >= (plan->count - 1) / plan->ranks + 1 && plan->block <= plan->count);
    FUZZ_CHECK((plan->block - 1) / chunk == plan->segments - 1);
    FUZZ_CHECK(chunk - 1 < plan->block - 1 + CSHIM_GRAIN);
}

static void check_cuts(const struct cshim_plan *plan, uint32_t any_index)
{
    const uint64_t chunks = chunks_in_share(plan) * plan->shares;
    FUZZ_CHECK(plan->segment > 0 && plan->segment % (chunks * CSHIM_GRAIN) == 0);
    FUZZ_CHECK(plan->segments > 0);
    if (has_blocks(plan)) {
        check_block_cuts(plan);
        return;
    }
    FUZZ_CHECK((plan->count - 1) / plan->segment == plan->segments - 1);
    FUZZ_CHECK(plan->segment - 1 < plan->count - 1 + chunks * CSHIM_GRAIN);
    const uint64_t last = plan->count - (plan->segments - 1) * plan->segment;
    const uint64_t lengths[] = {plan->count < plan->segment ? plan->count : plan->segment, last};
    for (size_t i = 0; i < 2; i++) {
        uint64_t begin, share;
        check_chunks(lengths[i], plan->shares, any_index);
        cshim_plan_chunk(lengths[i], plan->shares, any_index % plan->shares, &begin, &share);
        check_chunks(share, plan->peers, any_index);
    }
}

static uint64_t message(const struct cshim_plan *plan, uint64_t elements)
{
    return elements == 0
               ? 0
               : CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

/* On a GPU one segment at a time has all the scratch, and messages are as long as that allows. */
static void check_memory(const struct cshim_plan *plan, enum cshim_library library)
{
    const bool on_gpu = library == CSHIM_NCCL;
    const uint64_t chunk = plan->segment / (chunks_in_share(plan) * plan->shares);
    const uint64_t most = on_gpu ? 1 : CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t in_flight = plan->segments < most ? plan->segments : most;
    FUZZ_CHECK(plan->scratch_bytes <= (on_gpu ? CSHIM_NCCL_SCRATCH_LIMIT : CSHIM_SCRATCH_LIMIT));
    FUZZ_CHECK(plan->scratch_bytes == in_flight * plan->slot_bytes);
    FUZZ_CHECK(plan->piece_bytes == message(plan, chunk));
    FUZZ_CHECK(plan->piece_bytes <= PIECE_MAX || chunk == CSHIM_GRAIN || on_gpu);
    FUZZ_CHECK(plan->slot_bytes >= plan->piece_bytes + plan->stage_bytes);
    FUZZ_CHECK(plan->piece_bytes > 0);
    FUZZ_CHECK(plan->piece_bytes > 0 &&
               (plan->slot_bytes - plan->stage_bytes) % plan->piece_bytes == 0);
    const uint64_t staged = plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL
                                ? plan->peers * chunk * cshim_dtype_bytes(plan->dtype)
                                : 0;
    FUZZ_CHECK(plan->stage_bytes == staged);
}

/* The messages of one segment, each once. */
static uint64_t segment_bytes(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t bytes = 0, begin, share, chunk;
    for (uint32_t s = 0; s < plan->shares; s++) {
        cshim_plan_chunk(elements, plan->shares, s, &begin, &share);
        if (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT) {
            bytes += message(plan, share);
            continue;
        }
        for (uint32_t peer = 0; peer < plan->peers; peer++) {
            cshim_plan_chunk(share, plan->peers, peer, &begin, &chunk);
            bytes += message(plan, chunk);
        }
    }
    return bytes;
}

/* The messages of a call, each once; 0 if there are too many to count. */
static uint64_t count_messages(const struct cshim_plan *plan)
{
    uint64_t bytes = 0;
    if (plan->segments > MESSAGES_COUNTED || plan->peers > MESSAGES_COUNTED ||
        plan->shares > MESSAGES_COUNTED ||
        plan->segments * plan->shares * plan->peers > MESSAGES_COUNTED)
        return 0;
    if (has_blocks(plan)) {
        const uint64_t chunk = plan->segment / plan->peers;
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

/* The encoded sums that the root of a reduce gets from their owners. */
static uint64_t sums_to_root(const struct cshim_plan *plan)
{
    uint64_t bytes = 0, begin, chunk;
    for (uint64_t at = 0; at < plan->count; at += plan->segment) {
        const uint64_t left = plan->count - at;
        for (uint32_t owner = 0; owner < plan->peers; owner++) {
            cshim_plan_chunk(left < plan->segment ? left : plan->segment, plan->peers, owner,
                             &begin, &chunk);
            bytes += owner != plan->root ? message(plan, chunk) : 0;
        }
    }
    return bytes;
}

static void check_bytes(const struct cshim_plan *plan, const struct cshim_call *call)
{
    const bool gathered = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT;
    FUZZ_CHECK(plan->bytes_network <= plan->bytes_wire);
    FUZZ_CHECK(plan->bytes_native >= call->bytes && plan->bytes_wire > 0);
    uint64_t bytes = count_messages(plan) * (plan->peers - 1);
    if (plan->algorithm == CSHIM_ALGORITHM_CAST || bytes == 0)
        return;
    if (plan->collective == CSHIM_ALLREDUCE)
        bytes *= gathered ? plan->ranks : 2;
    if (plan->collective == CSHIM_REDUCE && !gathered)
        bytes += sums_to_root(plan);
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        bytes += 2 * (uint64_t)(plan->ranks - plan->peers) * call->bytes;
    FUZZ_CHECK(plan->bytes_wire == bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint64_t count;
    struct cshim_rule rule = take_rule(&input);
    struct cshim_call call = take_call(&input, &count);
    const uint32_t any_index = (uint32_t)fuzz_take(&input, 4);
    take_collective(&input, count, &call);
    const struct cshim_policy policy = {.rule_count = 1, .rules = &rule};
    const struct cshim_rule *decided;
    const enum cshim_reason reason = cshim_plan_reason(&policy, &call, count, &decided);
    const struct cshim_plan plan = cshim_plan_call(&policy, &call, count);
    FUZZ_CHECK(plan.rule == decided);
    FUZZ_CHECK(plan.reason == reason ||
               (plan.reason == CSHIM_REASON_NO_MEMORY && call.ranks > RANKS_THAT_FIT));
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        check_not_compressed(&plan);
        return 0;
    }
    FUZZ_CHECK(plan.codec == rule.codec && plan.dtype == call.dtype);
    FUZZ_CHECK(plan.ranks == call.ranks && plan.count == count);
    FUZZ_CHECK(plan.collective == call.collective);
    check_algorithm(&plan, &call);
    FUZZ_CHECK(plan.peers > 1 && plan.shares > 0);
    FUZZ_CHECK((uint64_t)plan.peers * plan.shares <= plan.ranks);
    FUZZ_CHECK(plan.quantizations > 0);
    FUZZ_CHECK(isfinite(plan.expected_error) && plan.expected_error >= 0);
    check_cuts(&plan, any_index);
    check_memory(&plan, call.library);
    check_bytes(&plan, &call);
    return 0;
}
