/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the decisions of compshim tune: equal measurements give equal policies, no choice was
 * measured to be slower than native, the requested error is kept, and the policy compresses as
 * chosen. */
#include <math.h>

#include "tools/tune/tune.h"
#include "tests/unit/unit.h"

/* The tool leaves most of its memory to the system (tools/lib/tool.h), so the leak sanitizer must
 * not report it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:tool_\nleak:tune_\nleak:vasprintf\n";
}

enum { RAW, FP16, FP16_GATHER, INT8, FP8, WAYS };

static struct tune_measured make_measured(uint32_t nodes)
{
    struct tune_measured measured = {.ranks = 4, .nodes = nodes, .way_count = WAYS};
    const struct tune_way ways[WAYS] = {
        [RAW] = {CSHIM_CODEC_RAW, CSHIM_ALGORITHM_TWO_SHOT},
        [FP16] = {CSHIM_CODEC_FP16, CSHIM_ALGORITHM_TWO_SHOT},
        [FP16_GATHER] = {CSHIM_CODEC_FP16, CSHIM_ALGORITHM_ONE_SHOT},
        [INT8] = {CSHIM_CODEC_INT8, CSHIM_ALGORITHM_TWO_SHOT},
        [FP8] = {CSHIM_CODEC_FP8_E4M3, CSHIM_ALGORITHM_TWO_SHOT},
    };
    memcpy(measured.ways, ways, sizeof ways);
    return measured;
}

static void add_size(struct tune_measured *measured, uint64_t bytes, double native,
                     const double seconds[WAYS])
{
    struct tune_size *size = &measured->sizes[measured->size_count++];
    *size = (struct tune_size){.bytes = bytes, .native = native};
    memcpy(size->ways, seconds, WAYS * sizeof *seconds);
}

/* Returns the parsed policy that the measurements lead to. */
static struct cshim_policy *decide(const struct tune_measured *measured, double max_rel_error)
{
    char message[CSHIM_MESSAGE_MAX];
    char *text = tune_policy(measured, max_rel_error);
    char *again = tune_policy(measured, max_rel_error);
    assert_string_equal(text, again);
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "tuned", message);
    if (policy == NULL)
        fail_msg("%s\n%s", message, text);
    free(again);
    free(text);
    return policy;
}

static struct cshim_plan plan(const struct cshim_policy *policy, uint64_t bytes, uint32_t ranks,
                              uint32_t nodes)
{
    const struct cshim_call call = {
        .library = CSHIM_MPI,
        .collective = CSHIM_ALLREDUCE,
        .dtype = CSHIM_FLOAT32,
        .op = CSHIM_SUM,
        .bytes = bytes,
        .ranks = ranks,
        .nodes = nodes,
        .ranks_per_node = ranks / nodes,
    };
    return cshim_plan_call(policy, &call, bytes / sizeof(float));
}

static enum cshim_codec_id codec_at(const struct cshim_policy *policy, uint64_t bytes)
{
    const struct cshim_plan planned = plan(policy, bytes, 4, 4);
    return planned.reason == CSHIM_REASON_COMPRESS ? planned.codec : CSHIM_CODEC_NONE;
}

TEST(from_where_it_pays)
{
    struct tune_measured measured = make_measured(4);
    add_size(&measured, 65536, 1.0, (double[]){1.2, 1.1, 1.0, 0.99, 0.98}); /* within the noise */
    add_size(&measured, 1 << 20, 8.0, (double[]){8.1, 5, 6, 4.0, 3.9});
    add_size(&measured, 4 << 20, 32.0, (double[]){30, 20, 24, 12.0, 11.9});
    struct cshim_policy *policy = decide(&measured, 0.01);
    assert_int_equal(codec_at(policy, 4096), CSHIM_CODEC_NONE);
    assert_int_equal(codec_at(policy, 65536), CSHIM_CODEC_NONE);
    assert_int_equal(codec_at(policy, (1 << 20) - 4), CSHIM_CODEC_NONE);
    assert_int_equal(codec_at(policy, 1 << 20), CSHIM_CODEC_INT8);
    assert_int_equal(codec_at(policy, 2 << 20), CSHIM_CODEC_INT8);
    assert_int_equal(codec_at(policy, UINT64_C(1) << 30), CSHIM_CODEC_INT8);
    /* A measurement between nodes applies to other numbers of nodes, but not within one node. */
    assert_int_equal(plan(policy, 4 << 20, 4, 1).reason, CSHIM_REASON_NO_RULE);
    assert_int_equal(plan(policy, 4 << 20, 8, 8).codec, CSHIM_CODEC_INT8);
    cshim_policy_free(policy);
}

/* Among equally fast candidates the most precise is chosen. One above the allowed error is never
 * chosen. */
TEST(keeps_the_error)
{
    struct tune_measured measured = make_measured(4);
    add_size(&measured, 1 << 20, 8.0, (double[]){7, 5, 6, 4.0, 3.9});
    static const struct {
        double max_rel_error;
        enum cshim_codec_id codec;
    } cases[] = {
        {1, CSHIM_CODEC_INT8},   {0.05, CSHIM_CODEC_INT8}, {0.005, CSHIM_CODEC_FP16},
        {1e-5, CSHIM_CODEC_RAW}, {0, CSHIM_CODEC_RAW},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_policy *policy = decide(&measured, cases[i].max_rel_error);
        assert_int_equal(codec_at(policy, 1 << 20), cases[i].codec);
        cshim_policy_free(policy);
    }
    measured.sizes[0].ways[FP8] = 3.0; /* faster than others by more than the noise */
    struct cshim_policy *policy = decide(&measured, 0.05);
    assert_int_equal(codec_at(policy, 1 << 20), CSHIM_CODEC_FP8_E4M3);
    cshim_policy_free(policy);
}

/* Two equally good candidates alternate in being fastest from size to size. The policy has one rule
 * for all sizes. */
TEST(does_not_flutter)
{
    struct tune_measured measured = make_measured(4);
    for (unsigned i = 0; i < 6; i++)
        add_size(&measured, UINT64_C(1) << (20 + i), 100,
                 (double[]){90, 80, 80, i % 2 ? 50 : 40, i % 2 ? 48 : 41});
    struct cshim_policy *policy = decide(&measured, 1);
    assert_int_equal(policy->rule_count, 1);
    cshim_policy_free(policy);
}

/* If a larger size is passed through, the rule ends at the last size that was measured to be
 * faster. */
TEST(ends_where_it_stops_paying)
{
    struct tune_measured measured = make_measured(4);
    add_size(&measured, 1 << 18, 8.0, (double[]){9, 9, 9, 4, 9}); /* a single fast size is chance */
    add_size(&measured, 3 << 17, 8.0, (double[]){9, 9, 9, 9, 9});
    add_size(&measured, 1 << 19, 8.0, (double[]){9, 9, 9, 4, 9});
    add_size(&measured, 1 << 20, 8.0, (double[]){9, 9, 9, 4, 9});
    add_size(&measured, 2 << 20, 8.0, (double[]){9, 9, 9, NAN, 9});
    add_size(&measured, 4 << 20, 8.0, (double[]){9, 4, 9, 9, 9});
    add_size(&measured, 8 << 20, 8.0, (double[]){9, 9, 4, 9, 9});
    struct cshim_policy *policy = decide(&measured, 0.01);
    assert_int_equal(codec_at(policy, 1 << 18), CSHIM_CODEC_NONE);
    assert_int_equal(codec_at(policy, 1 << 19), CSHIM_CODEC_INT8);
    assert_int_equal(codec_at(policy, 1 << 20), CSHIM_CODEC_INT8);
    assert_int_equal(codec_at(policy, (1 << 20) + 4), CSHIM_CODEC_NONE);
    assert_int_equal(codec_at(policy, 2 << 20), CSHIM_CODEC_NONE);
    assert_int_equal(plan(policy, 4 << 20, 4, 4).algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    assert_int_equal(plan(policy, (8 << 20) - 4, 4, 4).algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    assert_int_equal(plan(policy, 8 << 20, 4, 4).algorithm, CSHIM_ALGORITHM_ONE_SHOT);
    /* The choice differs from `auto`, so the rule holds only for the measured number of ranks. */
    assert_int_equal(plan(policy, 8 << 20, 8, 8).reason, CSHIM_REASON_NO_RULE);
    cshim_policy_free(policy);
}

/* Checks policies made from random measurements: what is chosen was measured to be faster than
 * native, and its error is within the limit. */
TEST(never_slower_than_native)
{
    uint64_t random = 1;
    for (unsigned turn = 0; turn < 2000; turn++) {
        struct tune_measured measured = make_measured(turn % 2 ? 4 : 1);
        size_t choices[TUNE_SIZES_MAX];
        const double limit = turn % 3 * 0.02;
        for (unsigned i = 0; i < 8; i++) {
            double seconds[WAYS];
            for (size_t way = 0; way < WAYS; way++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
                seconds[way] = (random >> 60) == 0 ? NAN : 0.5 + (double)(random >> 40) * 0x1p-24;
            }
            add_size(&measured, UINT64_C(4096) << i, 1.0, seconds);
        }
        tune_choose(&measured, limit, choices);
        struct cshim_policy *policy = decide(&measured, limit);
        for (size_t i = 0; i < 8; i++) {
            const struct cshim_plan planned =
                plan(policy, measured.sizes[i].bytes, 4, measured.nodes);
            if (choices[i] == TUNE_NATIVE) {
                assert_int_not_equal(planned.reason, CSHIM_REASON_COMPRESS);
                continue;
            }
            const struct tune_way *way = &measured.ways[choices[i]];
            assert_true(measured.sizes[i].ways[choices[i]] * 1.05 < measured.sizes[i].native);
            assert_true(tune_error(way, 4) <= limit);
            assert_int_equal(planned.codec, way->codec);
            assert_int_equal(planned.algorithm, way->algorithm);
            assert_true(planned.expected_error <= limit);
        }
        cshim_policy_free(policy);
    }
}
