/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the reason for which a policy passes a call through: compares random policies and calls
 * with a simple model that tries every size. Sizes are small enough to try all of them. */
#include "shim/core/plan.h"
#include "shim/core/passed.h"
#include "tests/unit/policy.h"

#define POLICIES 3000u
#define CALLS_EACH 40u
#define SIZES 40u          /* sizes that rules may name */
#define BEYOND (SIZES + 2) /* larger than every size in a rule */

static uint32_t chance = 1;

/* Returns a random number below `most`. */
static unsigned pick_below(unsigned most)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % most;
}

/* The text of the policy under construction. */
static char text[4096];

__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
}

/* Appends a line "KEY = VALUE" with one of the values, or nothing, at random. */
static void add_maybe(const char *key, const char *const *values, unsigned count)
{
    if (pick_below(3) == 0)
        add("%s = %s\n", key, values[pick_below(count)]);
}

static void write_rule(unsigned number)
{
    static const char *const libraries[] = {"mpi", "gloo", "mpi, gloo", "nccl"};
    static const char *const dtypes[] = {"float32", "float64", "float32, float64", "bfloat16"};
    static const char *const collectives[] = {"allreduce", "reduce", "allreduce, reduce_scatter"};
    static const char *const ops[] = {"sum", "avg", "sum, avg"};
    static const char *const ranges[] = {"1", "2", "2-", "1-3", "4-"};
    static const char *const codecs[] = {"none", "none", "raw", "fp16", "lossless", "int8"};
    const unsigned least = pick_below(SIZES), most = least + pick_below(SIZES + 1 - least);
    add("[rule r%u]\ncodec = %s\n", number, codecs[pick_below(6)]);
    add_maybe("library", libraries, 4);
    add_maybe("dtype", dtypes, 4);
    add_maybe("collective", collectives, 3);
    add_maybe("op", ops, 3);
    add_maybe("ranks", ranges + 1, 4);
    add_maybe("nodes", ranges, 5);
    if (pick_below(2) == 0)
        add("min_size = %u\n", least);
    if (pick_below(2) == 0)
        add("max_size = %u\n", most);
    if (pick_below(8) == 0)
        add("max_rel_error = 0.1\n");
}

static struct cshim_call pick_call(void)
{
    struct cshim_call call = {
        .library = pick_below(CSHIM_LIBRARY_COUNT),
        .collective = pick_below(3),
        .dtype = pick_below(CSHIM_DTYPE_COUNT),
        .op = CSHIM_SUM,
        .bytes = 1 + pick_below(BEYOND),
        .ranks = 2 + pick_below(5),
    };
    if (call.library == CSHIM_NCCL && pick_below(2) == 0)
        call.op = CSHIM_AVG;
    call.nodes = 1 + pick_below(call.ranks);
    call.ranks_per_node = call.ranks / call.nodes;
    return call;
}

/* Returns the result of the first matching rule, by the model. */
static enum cshim_reason first_rule(const struct cshim_policy *policy,
                                    const struct cshim_call *call, uint64_t bytes)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if (!(rule->libraries & 1u << call->library) ||
            !(rule->collectives & 1u << call->collective) || !(rule->dtypes & 1u << call->dtype) ||
            !(rule->ops & 1u << call->op) || bytes < rule->min_size || bytes > rule->max_size ||
            call->ranks < rule->min_ranks || call->ranks > rule->max_ranks ||
            call->nodes < rule->min_nodes || call->nodes > rule->max_nodes)
            continue;
        if (rule->codec == CSHIM_CODEC_NONE)
            return CSHIM_REASON_RULE_NONE;
        if (!cshim_codec_carries(rule->codec, call->dtype))
            return CSHIM_REASON_DTYPE;
        if ((rule->max_rel_error > 0 && call->library != CSHIM_MPI) ||
            (rule->codec == CSHIM_CODEC_LOSSLESS && call->library == CSHIM_NCCL))
            return CSHIM_REASON_OPTION;
        return CSHIM_REASON_COMPRESS;
    }
    return CSHIM_REASON_NO_RULE;
}

/* Returns the smallest larger size at which the call is compressed, or 0. */
static uint64_t size_that_helps(const struct cshim_policy *policy, const struct cshim_call *call)
{
    for (uint64_t bytes = call->bytes + 1; bytes <= BEYOND; bytes++)
        if (first_rule(policy, call, bytes) == CSHIM_REASON_COMPRESS)
            return bytes;
    return 0;
}

static enum cshim_reason expected(const struct cshim_policy *policy, const struct cshim_call *call)
{
    const enum cshim_reason reason = first_rule(policy, call, call->bytes);
    const bool is_passed = reason == CSHIM_REASON_RULE_NONE || reason == CSHIM_REASON_NO_RULE;
    return is_passed && size_that_helps(policy, call) > 0 ? CSHIM_REASON_TOO_SMALL : reason;
}

static void check_call(const struct cshim_policy *policy)
{
    const struct cshim_call call = pick_call();
    const struct cshim_rule *rule;
    const enum cshim_reason reason = cshim_plan_reason(policy, &call, 1, &rule);
    const enum cshim_reason want = expected(policy, &call);
    if (reason != want)
        fail_msg("%s, not %s, for %s %s by %s of %u bytes %s, %u ranks on %u nodes, under\n%s",
                 cshim_reason_name(reason), cshim_reason_name(want),
                 cshim_library_name(call.library), cshim_collective_name(call.collective),
                 cshim_op_name(call.op), (unsigned)call.bytes, cshim_dtype_name(call.dtype),
                 call.ranks, call.nodes, text);
    if (first_rule(policy, &call, call.bytes) == CSHIM_REASON_RULE_NONE ||
        first_rule(policy, &call, call.bytes) == CSHIM_REASON_NO_RULE) {
        const uint64_t above = cshim_plan_compressed_above(policy, &call);
        assert_int_equal(above != UINT64_MAX ? above : 0, size_that_helps(policy, &call));
    }
    /* The MPI engine passes calls below these sizes through without matching the policy. */
    const struct cshim_passed like = cshim_passed_like(policy, &call);
    const struct cshim_passed anywhere = cshim_passed_anywhere(policy, &call);
    if (call.bytes < like.below)
        assert_int_equal(reason, like.reason);
    if (call.bytes < anywhere.below)
        assert_int_equal(reason, anywhere.reason);
}

TEST(size_is_named_where_size_would_help)
{
    unsigned tried = 0;
    for (unsigned i = 0; i < POLICIES; i++) {
        char message[CSHIM_MESSAGE_MAX];
        text[0] = '\0';
        for (unsigned rule = 0, rules = 1 + pick_below(4); rule < rules; rule++)
            write_rule(rule);
        struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "random", message);
        for (unsigned call = 0; policy != NULL && call < CALLS_EACH; call++)
            check_call(policy);
        tried += policy != NULL;
        cshim_policy_free(policy);
    }
    assert_true(tried > POLICIES / 8);
}

/* Under the default policy, MPI's float32 all-reduces below 4096 bytes, and those of float64, are
 * passed through without matching, on every communicator. */
TEST(small_calls_are_decided_at_once)
{
    struct cshim_call sum = {.library = CSHIM_MPI, .ranks = 2, .nodes = 1};
    struct cshim_policy *policy = parse(cshim_policy_default_text());
    assert_int_equal(cshim_passed_anywhere(policy, &sum).below, 4096);
    assert_int_equal(cshim_passed_anywhere(policy, &sum).reason, CSHIM_REASON_TOO_SMALL);
    sum.dtype = CSHIM_FLOAT64;
    assert_true(cshim_passed_anywhere(policy, &sum).below == UINT64_MAX);
    assert_int_equal(cshim_passed_anywhere(policy, &sum).reason, CSHIM_REASON_NO_RULE);
    cshim_policy_free(policy);
}
