/* SPDX-License-Identifier: Apache-2.0 */
/* Plans calls with arbitrary properties. */
#include <math.h>

#include "tests/fuzz/fuzz.h"

#define PLAN_CHECK FUZZ_CHECK
#include "tests/plan_properties.h"

/* Largest number of messages that the test counts one by one. */
#define MESSAGES_COUNTED 512u
/* With at most this many ranks, a segment of one grain per rank fits into the scratch, for every
 * codec. */
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
    if (rule.codec != CSHIM_CODEC_NONE && rule.algorithm != CSHIM_ALGORITHM_CAST &&
        fuzz_take(input, 1) % 4 == 0)
        rule.gather_codec = (enum cshim_codec_id)(fuzz_take(input, 1) % CSHIM_CODEC_COUNT);
    if (rule.codec == CSHIM_CODEC_BOUNDED || rule.gather_codec == CSHIM_CODEC_BOUNDED)
        rule.abs_error =
            ldexp(1 + (double)fuzz_take(input, 1) / 256, (int)fuzz_take(input, 1) % 180 - 90);
    if (rule.codec == CSHIM_CODEC_TOPK || rule.gather_codec == CSHIM_CODEC_TOPK) {
        rule.error_feedback = true;
        rule.keep = 1 + (uint32_t)fuzz_take(input, 1) % 64;
    }
    /* The parser accepts cast only with codecs of at least 16 bits. */
    const struct cshim_codec_info *info = cshim_codec_info(rule.codec);
    if (rule.algorithm == CSHIM_ALGORITHM_CAST && info != NULL && rule.codec > CSHIM_CODEC_BF16)
        rule.algorithm = CSHIM_ALGORITHM_AUTO;
    return rule;
}

/* Takes a call of at most 2^63 bytes. */
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

/* Takes the collective, whether the call is nonblocking, the connection limit, and properties that
 * only some collectives get: the root of a reduce or broadcast, and the blocks of a reduce-scatter,
 * which may be longer than an even cut but not longer than the elements. */
static void take_collective(struct fuzz_input *input, uint64_t count, struct cshim_call *call)
{
    call->collective = (enum cshim_collective)(fuzz_take(input, 1) % CSHIM_COLLECTIVE_COUNT);
    call->nonblocking = fuzz_take(input, 1) % 2 != 0;
    if (call->collective == CSHIM_REDUCE || call->collective == CSHIM_BROADCAST)
        call->root = (uint32_t)fuzz_take(input, 4) % call->ranks;
    if (call->collective == CSHIM_REDUCE_SCATTER && count > 0) {
        const uint64_t even = (count - 1) / call->ranks + 1;
        const uint64_t longer = fuzz_take_any_length(input, 64);
        call->block = fuzz_take(input, 1) % 2 == 0 ? 0 : even + longer % (count - even + 1);
    }
    call->partners = (uint32_t)fuzz_take(input, 1);
}

static void check_not_compressed(const struct cshim_plan *plan)
{
    FUZZ_CHECK(plan->reason < CSHIM_REASON_COUNT && plan->codec == CSHIM_CODEC_NONE);
    FUZZ_CHECK(plan->segments == 0 && plan->scratch_bytes == 0 && plan->bytes_wire == 0);
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
               (plan.reason == CSHIM_REASON_NO_MEMORY && call.ranks > RANKS_THAT_FIT) ||
               (plan.reason == CSHIM_REASON_NO_DESCRIPTORS && call.partners > 0 &&
                call.partners < call.ranks - 1));
    if (plan.reason != CSHIM_REASON_COMPRESS) {
        check_not_compressed(&plan);
        return 0;
    }
    check_plan(&plan, &call, count, any_index, MESSAGES_COUNTED);
    return 0;
}
