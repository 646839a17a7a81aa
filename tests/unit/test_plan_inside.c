/* SPDX-License-Identifier: Apache-2.0 */
/* Tests plans of all-reduces within a node, with and without shared memory. */
#include "shim/core/plan.h"
#include "tests/unit/policy.h"

#define MIB ((uint64_t)1 << 20)

/* Returns the plan of a call on `ranks` ranks under a rule with these keys. The rule is freed: do
 * not use plan.rule. */
static struct cshim_plan plan_by(const char *keys, struct cshim_call call, uint32_t ranks)
{
    char text[128];
    snprintf(text, sizeof text, "[rule a]\ncollective = allreduce, reduce\n%s\n", keys);
    struct cshim_policy *policy = parse(text);
    call.ranks = ranks;
    struct cshim_plan plan = cshim_plan_call(policy, &call, call.bytes / sizeof(float));
    cshim_policy_free(policy);
    plan.rule = NULL;
    return plan;
}

/* With MPI, `auto` is two_shot for an all-reduce of at least 64 KiB in raw, sums included, on the
 * two ranks of a node: each rank copies and adds half of the elements. It is one_shot for the other
 * calls here. */
TEST(raw_of_two_ranks)
{
    static const struct {
        const char *keys;
        struct cshim_call call;
        enum cshim_algorithm algorithm;
    } cases[] = {
        {"codec = raw", {.nodes = 1, .bytes = 65536}, CSHIM_ALGORITHM_TWO_SHOT},
        {"codec = raw", {.nodes = 1, .bytes = 65532}, CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = raw", {.nodes = 2, .bytes = 65536}, CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = raw",
         {.nodes = 1, .bytes = 65536, .library = CSHIM_GLOO},
         CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = raw",
         {.nodes = 1, .bytes = 65536, .collective = CSHIM_REDUCE},
         CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = fp16", {.nodes = 1, .bytes = 65536}, CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = raw\ngather_codec = raw", {.nodes = 1, .bytes = 65536}, CSHIM_ALGORITHM_TWO_SHOT},
        {"codec = raw\ngather_codec = fp16",
         {.nodes = 1, .bytes = 65536},
         CSHIM_ALGORITHM_ONE_SHOT},
        {"codec = raw\nalgorithm = one_shot",
         {.nodes = 1, .bytes = 65536},
         CSHIM_ALGORITHM_ONE_SHOT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(
            cshim_algorithm_name(plan_by(cases[i].keys, cases[i].call, 2).algorithm),
            cshim_algorithm_name(cases[i].algorithm));
}

/* With MPI, messages within shared memory are longer than without it, because only their headers
 * are sent. */
TEST(pieces_of_a_node)
{
    const char keys[] = "codec = fp16\nalgorithm = two_shot";
    struct cshim_call call = {.nodes = 1, .bytes = 64 * MIB};
    assert_in_range(plan_by(keys, call, 4).piece_bytes, 90 << 10, 96 << 10);
    call.is_apart = true;
    assert_in_range(plan_by(keys, call, 4).piece_bytes, 50 << 10, 60 << 10);
    call.is_apart = false;
    call.library = CSHIM_GLOO;
    assert_in_range(plan_by(keys, call, 4).piece_bytes, 200 << 10, 256 << 10);
}

/* Without shared memory, MPI's all-reduces of up to 32 MiB within a node are passed through as
 * no_gain under raw, unless worth = always. */
TEST(apart_inside_a_node)
{
    static const struct {
        const char *keys;
        struct cshim_call call;
        enum cshim_reason reason;
    } cases[] = {
        {"codec = raw", {.nodes = 1, .bytes = MIB}, CSHIM_REASON_NO_GAIN},
        {"codec = raw", {.nodes = 1, .bytes = 32 * MIB}, CSHIM_REASON_NO_GAIN},
        {"codec = fp8_e4m3", {.nodes = 1, .bytes = MIB}, CSHIM_REASON_COMPRESS},
        {"codec = raw", {.nodes = 1, .bytes = 32 * MIB + 4}, CSHIM_REASON_COMPRESS},
        {"codec = raw", {.nodes = 2, .bytes = MIB}, CSHIM_REASON_COMPRESS},
        {"codec = raw", {.nodes = 1, .bytes = MIB, .library = CSHIM_GLOO}, CSHIM_REASON_COMPRESS},
        {"codec = raw",
         {.nodes = 1, .bytes = MIB, .collective = CSHIM_REDUCE},
         CSHIM_REASON_COMPRESS},
        {"codec = raw\nworth = always", {.nodes = 1, .bytes = MIB}, CSHIM_REASON_COMPRESS},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_call call = cases[i].call;
        assert_int_equal(plan_by(cases[i].keys, call, 4).reason, CSHIM_REASON_COMPRESS);
        call.is_apart = true;
        assert_string_equal(cshim_reason_name(plan_by(cases[i].keys, call, 4).reason),
                            cshim_reason_name(cases[i].reason));
    }
}
