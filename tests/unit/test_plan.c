/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: its reasons, the choice of algorithm, and properties over sizes, ranks, codecs and
 * types, with the bytes on the wire counted message by message. */

#include "tests/unit/policy.h"

#define PLAN_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("%s", #condition);                                                            \
            abort(); /* not reached; analysers do not know that */                                 \
        }                                                                                          \
    } while (0)
#include "tests/plan_properties.h"

#define MIB ((uint64_t)1 << 20)

/* Parses a policy with one rule, which matches sums of every type and size. */
static struct cshim_policy *one_rule(enum cshim_codec_id codec, enum cshim_algorithm algorithm)
{
    char text[128];
    snprintf(text, sizeof text, "[rule all]\ncodec = %s\nalgorithm = %s\n%s",
             cshim_codec_name(codec), cshim_algorithm_name(algorithm),
             codec == CSHIM_CODEC_BOUNDED ? "abs_error = 1e-4\n"
             : codec == CSHIM_CODEC_TOPK  ? "error_feedback = on\n"
                                          : "");
    return parse(text);
}

static struct cshim_plan plan_mpi(const struct cshim_policy *policy, enum cshim_dtype dtype,
                                  uint32_t ranks, uint64_t count)
{
    struct cshim_call call = {.dtype = dtype, .ranks = ranks};
    call.bytes = count * cshim_dtype_bytes(dtype);
    return cshim_plan_call(policy, &call, count);
}

TEST(a_call_that_the_library_cannot_make_is_compressed_at_once)
{
    struct cshim_policy *policy = parse("[rule a]\ncodec = fp8_e4m3\nworth = foretold\n");
    struct cshim_call call = {.ranks = 4, .nodes = 4, .bytes = 4 << 20};
    assert_int_equal(cshim_plan_call(policy, &call, 1 << 20).reason, CSHIM_REASON_NO_GAIN);
    call.lacks_native = true;
    assert_int_equal(cshim_plan_call(policy, &call, 1 << 20).reason, CSHIM_REASON_COMPRESS);
    cshim_policy_free(policy);
}

TEST(reasons)
{
    struct cshim_policy *policy = parse("[rule small]\nmax_size = 64\ncodec = none\n"
                                        "[rule mid]\nranks = 3\ncodec = none\n"
                                        "[rule wide]\ndtype = float32, float64\nranks = 2-4\n"
                                        "codec = fp16\n"
                                        "[rule any]\nranks = 4\ncodec = fp16\n");
    static const struct {
        struct cshim_call call;
        uint64_t count;
        enum cshim_reason reason;
        const char *rule;
    } cases[] = {
        {{.dtype = CSHIM_DTYPE_OTHER, .ranks = 1}, 0, CSHIM_REASON_EMPTY, NULL},
        {{.dtype = CSHIM_DTYPE_OTHER, .ranks = 1}, 9, CSHIM_REASON_SINGLE_RANK, NULL},
        {{.dtype = CSHIM_DTYPE_OTHER, .op = CSHIM_OP_OTHER, .ranks = 2},
         9,
         CSHIM_REASON_DTYPE,
         NULL},
        {{.op = CSHIM_OP_OTHER, .bytes = 36, .ranks = 2}, 9, CSHIM_REASON_OP, NULL},
        {{.op = CSHIM_AVG, .bytes = 36, .ranks = 2}, 9, CSHIM_REASON_OP, NULL},
        {{.bytes = 64, .ranks = 2}, 16, CSHIM_REASON_TOO_SMALL, "small"},
        {{.bytes = 400, .ranks = 3}, 100, CSHIM_REASON_RULE_NONE, "mid"},
        {{.bytes = 400, .ranks = 5}, 100, CSHIM_REASON_NO_RULE, NULL},
        {{.dtype = CSHIM_BFLOAT16, .bytes = 200, .ranks = 4}, 100, CSHIM_REASON_DTYPE, "any"},
        {{.bytes = 400, .ranks = 4}, 100, CSHIM_REASON_COMPRESS, "wide"},
        {{.library = CSHIM_NCCL, .op = CSHIM_AVG, .bytes = 400, .ranks = 4},
         100,
         CSHIM_REASON_COMPRESS,
         "wide"},
        {{.library = CSHIM_GLOO, .bytes = 400, .ranks = 4}, 100, CSHIM_REASON_COMPRESS, "wide"},
        {{.library = CSHIM_GLOO, .op = CSHIM_AVG, .bytes = 400, .ranks = 4},
         100,
         CSHIM_REASON_OP,
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_plan plan = cshim_plan_call(policy, &cases[i].call, cases[i].count);
        assert_string_equal(cshim_reason_name(plan.reason), cshim_reason_name(cases[i].reason));
        assert_string_equal(plan.rule != NULL ? plan.rule->name : "",
                            cases[i].rule != NULL ? cases[i].rule : "");
        assert_int_equal(plan.segments == 0, plan.reason != CSHIM_REASON_COMPRESS);
        assert_int_equal(plan.bytes_wire == 0, plan.reason != CSHIM_REASON_COMPRESS);
    }
    cshim_policy_free(policy);
}

TEST(reasons_have_names)
{
    for (unsigned a = 0; a < CSHIM_REASON_COUNT; a++) {
        assert_string_not_equal(cshim_reason_name((enum cshim_reason)a), "?");
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(cshim_reason_name((enum cshim_reason)a),
                                    cshim_reason_name((enum cshim_reason)b));
    }
    assert_string_equal(cshim_reason_name(CSHIM_REASON_COUNT), "?");
}

TEST(algorithms)
{
    static const struct {
        const char *named;
        uint32_t ranks;
        uint64_t count;
        enum cshim_algorithm algorithm;
        unsigned quantizations;
    } cases[] = {
        {"auto", 2, 1 << 24, CSHIM_ALGORITHM_ONE_SHOT, 1},
        {"auto", 3, 2048, CSHIM_ALGORITHM_ONE_SHOT, 1},
        {"auto", 4, 4096, CSHIM_ALGORITHM_ONE_SHOT, 1},
        {"auto", 4, 4097, CSHIM_ALGORITHM_TWO_SHOT, 2},
        {"auto", 5, 2048, CSHIM_ALGORITHM_TWO_SHOT, 2},
        {"cast", 4, 1 << 20, CSHIM_ALGORITHM_CAST, 4},
        {"one_shot", 8, 1 << 20, CSHIM_ALGORITHM_ONE_SHOT, 1},
        {"two_shot", 2, 1, CSHIM_ALGORITHM_TWO_SHOT, 2},
        {"hierarchical", 2, 1, CSHIM_ALGORITHM_ONE_SHOT, 1}, /* the layout has no nodes */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, "[rule a]\ncodec = bf16\nalgorithm = %s\n", cases[i].named);
        struct cshim_policy *policy = parse(text);
        struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT32, cases[i].ranks, cases[i].count);
        double error = cshim_codec_info(CSHIM_CODEC_BF16)->typical;
        double squared = error * error * cases[i].quantizations;
        assert_string_equal(cshim_algorithm_name(plan.algorithm),
                            cshim_algorithm_name(cases[i].algorithm));
        assert_int_equal(plan.quantizations, cases[i].quantizations);
        assert_float_equal(plan.expected_error * plan.expected_error / squared, 1.0, 1e-6);
        cshim_policy_free(policy);
    }
}

static void check_all_chunks(uint64_t count, uint32_t ranks)
{
    for (uint32_t index = 0; index < ranks; index++)
        check_chunk(count, ranks, index);
}

TEST(chunks_tile_the_segment)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 63, 1024};
    for (size_t r = 0; r < COUNT_OF(ranks); r++) {
        for (uint64_t count = 0; count < 2200; count++)
            check_all_chunks(count, ranks[r]);
        for (uint64_t count = 1; count <= (uint64_t)1 << 40; count = count * 7 / 2 + 1)
            check_all_chunks(count, ranks[r]);
    }
}

/* On several nodes, of which at least one has several ranks, `auto` is hierarchical, except for
 * small calls of up to four ranks. */
TEST(auto_sees_nodes)
{
    static const struct {
        uint32_t ranks, nodes, ranks_per_node;
        enum cshim_algorithm algorithm;
        uint64_t count;
    } cases[] = {
        {4, 2, 2, CSHIM_ALGORITHM_HIERARCHICAL, 1 << 20},
        {4, 2, 1, CSHIM_ALGORITHM_HIERARCHICAL, 1 << 20},
        {4, 1, 4, CSHIM_ALGORITHM_TWO_SHOT, 1 << 20},
        {4, 4, 1, CSHIM_ALGORITHM_TWO_SHOT, 1 << 20},
        {2, 1, 2, CSHIM_ALGORITHM_ONE_SHOT, 1 << 20},
        {4, 2, 2, CSHIM_ALGORITHM_ONE_SHOT, 1 << 10},
        {16, 4, 4, CSHIM_ALGORITHM_HIERARCHICAL, 1 << 10},
    };
    struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP16, CSHIM_ALGORITHM_AUTO);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_call call = {.bytes = 4 * cases[i].count,
                                  .ranks = cases[i].ranks,
                                  .nodes = cases[i].nodes,
                                  .ranks_per_node = cases[i].ranks_per_node};
        struct cshim_plan plan = cshim_plan_call(policy, &call, cases[i].count);
        assert_string_equal(cshim_algorithm_name(plan.algorithm),
                            cshim_algorithm_name(cases[i].algorithm));
    }
    /* On two nodes of two ranks, the flat exchange sends twice as many bytes between nodes. */
    struct cshim_policy *flat = one_rule(CSHIM_CODEC_FP16, CSHIM_ALGORITHM_TWO_SHOT);
    struct cshim_call call = {.bytes = 64 * MIB, .ranks = 4, .nodes = 2, .ranks_per_node = 2};
    uint64_t levels = cshim_plan_call(policy, &call, 16 * MIB).bytes_network;
    uint64_t whole = cshim_plan_call(flat, &call, 16 * MIB).bytes_network;
    assert_in_range(whole * 1000 / levels, 1999, 2010);
    cshim_policy_free(flat);
    cshim_policy_free(policy);
}

/* Compared with an uncompressed ring, fewer bytes are sent between nodes by at least the codec's
 * factor (1.9 for fp16, 3.8 for fp8). */
TEST(less_is_sent_between_nodes)
{
    static const enum cshim_codec_id codecs[] = {CSHIM_CODEC_FP16, CSHIM_CODEC_FP8_E4M3};
    static const double factors[] = {1.9, 3.8};
    static const enum cshim_collective collectives[] = {CSHIM_ALLREDUCE, CSHIM_REDUCE_SCATTER};
    static const enum cshim_library libraries[] = {CSHIM_NCCL, CSHIM_MPI};
    for (size_t i = 0; i < 8; i++) {
        struct cshim_policy *policy = one_rule(codecs[i / 2 % 2], CSHIM_ALGORITHM_AUTO);
        for (uint32_t nodes = 2; nodes <= 8; nodes *= 2) {
            const struct cshim_call call = {.library = libraries[i / 4],
                                            .collective = collectives[i % 2],
                                            .bytes = 100 * MIB,
                                            .ranks = 8 * nodes,
                                            .nodes = nodes,
                                            .ranks_per_node = 8};
            const struct cshim_plan plan = cshim_plan_call(policy, &call, 25 * MIB);
            const double ring = (i % 2 == 0 ? 2.0 : 1.0) * nodes * (call.ranks - 1) / call.ranks;
            assert_int_equal(plan.algorithm, CSHIM_ALGORITHM_HIERARCHICAL);
            assert_true((double)plan.bytes_network * factors[i / 2 % 2] <= ring * 100 * MIB);
        }
        cshim_policy_free(policy);
    }
}

static void assert_same(const struct cshim_plan *a, const struct cshim_plan *b)
{
    assert_true(a->reason == b->reason && a->rule == b->rule && a->codec == b->codec);
    assert_true(a->algorithm == b->algorithm && a->dtype == b->dtype && a->ranks == b->ranks);
    assert_true(a->count == b->count && a->segment == b->segment && a->segments == b->segments);
    assert_true(a->piece_bytes == b->piece_bytes && a->slot_bytes == b->slot_bytes);
    assert_true(a->scratch_bytes == b->scratch_bytes && a->bytes_wire == b->bytes_wire);
    assert_true(a->bytes_native == b->bytes_native && a->quantizations == b->quantizations);
    assert_memory_equal(&a->expected_error, &b->expected_error, sizeof a->expected_error);
}

/* Checks calls like `one` in many sizes, under each codec that supports their type, algorithm and
 * library. */
static void check_sizes(enum cshim_algorithm algorithm, struct cshim_call one)
{
    for (unsigned codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        if (!cshim_codec_carries(codec, one.dtype) ||
            (algorithm == CSHIM_ALGORITHM_CAST && codec > CSHIM_CODEC_BF16) ||
            (one.library == CSHIM_NCCL && cshim_codec_is_packed(codec)))
            continue;
        struct cshim_policy *policy = one_rule(codec, algorithm);
        for (uint64_t count = 1; count <= (uint64_t)1 << 40; count = count * 3 / 2 + 1) {
            struct cshim_call call = one;
            call.bytes = count * cshim_dtype_bytes(call.dtype);
            call.root = (uint32_t)(count % call.ranks);
            const uint64_t even = (count - 1) / call.ranks + 1;
            if (call.collective == CSHIM_REDUCE_SCATTER && count % 3 == 0)
                call.block =
                    even + (count - even) / 3 * 2; /* makes one result longer than the others */
            const struct cshim_plan plan = cshim_plan_call(policy, &call, count);
            const struct cshim_plan again = cshim_plan_call(policy, &call, count);
            check_plan(&plan, &call, count, (uint32_t)count, 5000);
            assert_same(&plan, &again);
        }
        cshim_policy_free(policy);
    }
}

TEST(plans_hold_their_properties)
{
    static const struct cshim_call layouts[] = {
        {.ranks = 2},
        {.ranks = 3},
        {.ranks = 5, .nodes = 1, .ranks_per_node = 5},
        {.ranks = 8, .nodes = 8, .ranks_per_node = 1},
        {.ranks = 64},
        {.ranks = 1000},
        {.ranks = 1024},
        {.ranks = 4, .nodes = 2, .ranks_per_node = 2},
        {.ranks = 4, .nodes = 2, .ranks_per_node = 1},
        {.ranks = 7, .nodes = 3, .ranks_per_node = 2},
        {.ranks = 64, .nodes = 8, .ranks_per_node = 8},
        {.ranks = 331,
         .nodes = 82,
         .ranks_per_node = 4}, /* few shares, and a grid with an uneven row */
        {.ranks = 1024, .nodes = 16, .ranks_per_node = 64},
    };
    for (unsigned algorithm = 0; algorithm < CSHIM_ALGORITHM_COUNT; algorithm++)
        for (size_t l = 0; l < COUNT_OF(layouts); l++) {
            struct cshim_call call = layouts[l];
            for (call.dtype = 0; call.dtype < CSHIM_DTYPE_COUNT; call.dtype++)
                check_sizes(algorithm, call);
            call.dtype = CSHIM_FLOAT32;
            call.collective = CSHIM_REDUCE;
            check_sizes(algorithm, call);
            call.collective = CSHIM_REDUCE_SCATTER;
            check_sizes(algorithm, call);
            call.collective = CSHIM_ALLREDUCE;
            call.library = CSHIM_GLOO;
            check_sizes(algorithm, call);
            call.library = CSHIM_NCCL;
            check_sizes(algorithm, call);
            call.collective = CSHIM_REDUCE_SCATTER;
            check_sizes(algorithm, call);
        }
}

/* Full segments of large calls have messages large enough to keep a link busy. */
TEST(large_calls_have_large_pieces)
{
    for (uint32_t ranks = 2; ranks <= 16; ranks++) {
        struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP8_E4M3, CSHIM_ALGORITHM_TWO_SHOT);
        struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT32, ranks, (uint64_t)1 << 30);
        uint64_t piece = cshim_encoded_bytes(plan.codec, plan.dtype, plan.segment / ranks);
        assert_in_range(piece, 32 << 10, 60 << 10);
        /* Headers, scales and padding add less than 1 %. */
        assert_true(plan.bytes_native / 4 * 101 / 100 > plan.bytes_wire);
        cshim_policy_free(policy);
    }
}

/* By one_shot and by two_shot, more elements take no fewer bytes, except for a slack of 64 bytes
 * for each of 2 * ranks^2 messages (header, padding). */
TEST(bytes_grow_with_the_count)
{
    static const enum cshim_algorithm algorithms[] = {CSHIM_ALGORITHM_ONE_SHOT,
                                                      CSHIM_ALGORITHM_TWO_SHOT};
    for (size_t a = 0; a < COUNT_OF(algorithms); a++)
        for (uint32_t ranks = 2; ranks <= 8; ranks++) {
            struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP16, algorithms[a]);
            uint64_t before = 0, slack = 2 * (uint64_t)ranks * ranks * 64;
            for (uint64_t count = 1; count < 300000; count += 97) {
                uint64_t bytes = plan_mpi(policy, CSHIM_FLOAT32, ranks, count).bytes_wire;
                assert_true(bytes + slack >= before);
                before = bytes > before ? bytes : before;
            }
            cshim_policy_free(policy);
        }
}

TEST(figures_stop_at_the_largest)
{
    struct cshim_policy *policy = one_rule(CSHIM_CODEC_RAW, CSHIM_ALGORITHM_ONE_SHOT);
    struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT64, 1024, (uint64_t)1 << 50);
    assert_true(plan.bytes_wire == UINT64_MAX);
    assert_true(plan.bytes_native == 2 * (uint64_t)1023 << 53);
    cshim_policy_free(policy);
}

/* With so many ranks that one grain for each exceeds the scratch, calls are passed through. */
TEST(too_many_ranks_for_the_scratch)
{
    struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP16, CSHIM_ALGORITHM_TWO_SHOT);
    bool before = true;
    for (uint64_t ranks = 2; ranks <= UINT32_MAX; ranks = ranks * 5 / 4 + 1) {
        struct cshim_plan plan =
            plan_mpi(policy, CSHIM_FLOAT32, (uint32_t)ranks, (uint64_t)1 << 40);
        bool fits = plan.reason == CSHIM_REASON_COMPRESS;
        assert_true(fits || plan.reason == CSHIM_REASON_NO_MEMORY);
        assert_true(plan.scratch_bytes <= 32 * MIB);
        assert_true(fits || (plan.bytes_wire == 0 && plan.segments == 0));
        assert_true(before || !fits);
        before = fits;
    }
    assert_false(before);
    cshim_policy_free(policy);
}

/* Plans the weights, not the biases, of the example's convolutional network under the example's
 * policy. */
TEST(example_policy_fits_the_example)
{
    static const struct {
        uint64_t count;
        enum cshim_reason reason;
        enum cshim_codec_id codec;
        uint64_t hundredths; /* lower bound of 100 * bytes_native / bytes_wire */
    } cases[] = {
        {288, CSHIM_REASON_TOO_SMALL, CSHIM_CODEC_NONE, 0},
        {18432, CSHIM_REASON_COMPRESS, CSHIM_CODEC_FP16, 198},
        {1179648, CSHIM_REASON_COMPRESS, CSHIM_CODEC_FP8_E4M3, 390},
        {1280, CSHIM_REASON_TOO_SMALL, CSHIM_CODEC_NONE, 0},
    };
    char source[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length;
    char *text = cshim_policy_load("examples/policy.ini", &length, source, message);
    if (text == NULL) {
        fail_msg("%s (unit tests run in the project's root)", message);
        return;
    }
    struct cshim_policy *policy = parse(text);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT32, ranks, cases[i].count);
            assert_int_equal(plan.reason, cases[i].reason);
            assert_int_equal(plan.codec, cases[i].codec);
            assert_true(plan.bytes_native * 100 >= plan.bytes_wire * cases[i].hundredths);
        }
    cshim_policy_free(policy);
    free(text);
}

static struct cshim_call call_of(enum cshim_collective collective, uint32_t ranks, uint64_t count)
{
    return (struct cshim_call){.collective = collective,
                               .dtype = CSHIM_FLOAT32,
                               .op = CSHIM_SUM,
                               .bytes = count * sizeof(float),
                               .ranks = ranks,
                               .nodes = 1,
                               .ranks_per_node = ranks};
}

static enum cshim_algorithm way(const char *algorithm, enum cshim_collective collective,
                                bool nonblocking, uint32_t ranks, uint64_t count)
{
    char text[128];
    snprintf(text, sizeof text, "[rule a]\ncodec = fp16\nalgorithm = %s\n", algorithm);
    struct cshim_policy *policy = parse(text);
    struct cshim_call call = call_of(collective, ranks, count);
    call.nonblocking = nonblocking;
    call.nodes = ranks / 2;
    call.ranks_per_node = 2;
    const enum cshim_algorithm chosen = cshim_plan_call(policy, &call, count).algorithm;
    cshim_policy_free(policy);
    return chosen;
}

TEST(ways)
{
    const enum cshim_algorithm gathered = CSHIM_ALGORITHM_ONE_SHOT;
    const enum cshim_algorithm two_shot = CSHIM_ALGORITHM_TWO_SHOT;
    assert_int_equal(way("auto", CSHIM_ALLREDUCE, false, 8, 1000000), CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(way("auto", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("hierarchical", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("cast", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("one_shot", CSHIM_ALLREDUCE, true, 8, 1000000), gathered);
    assert_int_equal(way("cast", CSHIM_ALLREDUCE, false, 8, 1000000), CSHIM_ALGORITHM_CAST);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 8, 1000000), CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(way("two_shot", CSHIM_REDUCE, false, 8, 1000000), two_shot);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 2, 1000000), gathered);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 4, 1000), gathered);
    assert_int_equal(way("auto", CSHIM_REDUCE_SCATTER, false, 8, 1000000),
                     CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(way("two_shot", CSHIM_REDUCE_SCATTER, false, 8, 1000000), two_shot);
    /* Five ranks on two nodes: unequal numbers of ranks. */
    assert_int_equal(way("hierarchical", CSHIM_REDUCE_SCATTER, false, 5, 1000000), two_shot);
    assert_int_equal(way("hierarchical", CSHIM_REDUCE, false, 5, 1000000),
                     CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(way("allgather", CSHIM_REDUCE_SCATTER, false, 2, 1000), two_shot);
}

/* NCCL's own broadcast sends the root's message to all ranks; it enters each node once. */
TEST(broadcasts_of_nccl)
{
    struct cshim_policy *policy =
        parse("[rule a]\ncollective = broadcast\ncodec = fp16\nalgorithm = two_shot\n");
    struct cshim_call call = call_of(CSHIM_BROADCAST, 8, 10000000);
    call.nodes = 2;
    const struct cshim_plan of_mpi = cshim_plan_call(policy, &call, 10000000);
    call.library = CSHIM_NCCL;
    const struct cshim_plan plan = cshim_plan_call(policy, &call, 10000000);
    assert_int_equal(of_mpi.algorithm, CSHIM_ALGORITHM_TWO_SHOT);
    assert_int_equal(plan.algorithm, CSHIM_ALGORITHM_ONE_SHOT);
    assert_int_equal(plan.bytes_wire, 7 * plan.bytes_network);
    assert_true(plan.bytes_network > 20000000 && plan.bytes_network < 20100000);
    assert_int_equal(plan.slot_bytes, plan.piece_bytes);
    cshim_policy_free(policy);
}

/* max_rel_error is supported with MPI only. */
TEST(options_of_libraries)
{
    struct cshim_policy *policy = parse("[rule a]\ncodec = fp16\nmax_rel_error = 0.1\n");
    struct cshim_call call = call_of(CSHIM_ALLREDUCE, 4, 1000);
    assert_int_equal(cshim_plan_call(policy, &call, 1000).reason, CSHIM_REASON_COMPRESS);
    call.library = CSHIM_NCCL;
    assert_int_equal(cshim_plan_call(policy, &call, 1000).reason, CSHIM_REASON_OPTION);
    call.library = CSHIM_GLOO;
    assert_int_equal(cshim_plan_call(policy, &call, 1000).reason, CSHIM_REASON_OPTION);
    cshim_policy_free(policy);
}

TEST(rules_name_collectives)
{
    struct cshim_policy *policy =
        parse("[rule a]\ncollective = reduce\nmin_size = 1KiB\ncodec = fp16\n"
              "[rule b]\ncollective = reduce_scatter, allreduce\nmin_size = 2KiB\ncodec = int8\n");
    struct cshim_call call = call_of(CSHIM_REDUCE, 4, 250);
    assert_int_equal(cshim_plan_call(policy, &call, 250).reason, CSHIM_REASON_TOO_SMALL);
    call = call_of(CSHIM_REDUCE, 4, 256);
    assert_int_equal(cshim_plan_call(policy, &call, 256).codec, CSHIM_CODEC_FP16);
    call = call_of(CSHIM_ALLREDUCE, 4, 256);
    assert_int_equal(cshim_plan_call(policy, &call, 256).reason, CSHIM_REASON_TOO_SMALL);
    call = call_of(CSHIM_REDUCE_SCATTER, 4, 1000);
    assert_int_equal(cshim_plan_call(policy, &call, 1000).codec, CSHIM_CODEC_INT8);
    cshim_policy_free(policy);
}

/* Cuts a segment into shares, and each share into chunks. Returns the largest number of elements
 * that a node owns, divided by the mean over all nodes. */
static double heaviest_over_mean(uint64_t elements, uint32_t nodes, uint32_t shares)
{
    uint64_t *added = calloc(nodes, sizeof *added), heaviest = 0;
    for (uint32_t s = 0; s < shares; s++) {
        const uint64_t share = cshim_plan_chunk(elements, shares, s).length;
        uint64_t covered = 0;
        for (uint32_t node = 0; node < nodes && share > 0; node++) {
            const struct cshim_range chunk = cshim_plan_owned(share, nodes, s, node);
            assert_true(chunk.begin + chunk.length <= share);
            covered += chunk.length;
            added[node] += chunk.length;
        }
        assert_true(covered == share);
    }
    for (uint32_t node = 0; node < nodes; node++)
        heaviest = added[node] > heaviest ? added[node] : heaviest;
    free(added);
    return (double)heaviest * nodes / (double)elements;
}

TEST(owners_rotate)
{
    /* 1 MiB; the ratio is 32 without rotation */
    assert_true(heaviest_over_mean(1 << 18, 256, 128) <= 1.25);
    assert_true(heaviest_over_mean(1 << 20, 4096, 128) <= 1.25);
    assert_true(heaviest_over_mean((1 << 20) + 5, 64, 8) <= 1.25);
    for (uint32_t nodes = 2; nodes <= 300; nodes += 7)
        for (uint32_t shares = 2; shares <= 64; shares *= 2)
            assert_true(heaviest_over_mean((uint64_t)nodes * shares * 3000, nodes, shares) <= 1.25);
    /* The first share is not rotated: its first chunk belongs to the first peer. */
    const struct cshim_range first = cshim_plan_owned(700, 8, 0, 0);
    assert_true(first.begin == 0 && first.length == 256);
}

/* The smallest numbers of connections with which each algorithm is planned, on 12 nodes of 3 ranks:
 * two_shot connects a rank to all others, grid to one rank of each node of its row of 4 and its
 * column of 3, hierarchical to one rank of each node; the last two also to the ranks of its own
 * node. */
TEST(connections_are_limited)
{
    struct cshim_call call = {
        .dtype = CSHIM_FLOAT32, .bytes = 4 * MIB, .ranks = 36, .nodes = 12, .ranks_per_node = 3};
    const struct {
        enum cshim_algorithm named, planned;
        uint32_t partners;
    } cases[] = {
        {CSHIM_ALGORITHM_TWO_SHOT, CSHIM_ALGORITHM_TWO_SHOT, 35},
        {CSHIM_ALGORITHM_GRID, CSHIM_ALGORITHM_GRID, 3 + 2 + 2},
        {CSHIM_ALGORITHM_HIERARCHICAL, CSHIM_ALGORITHM_HIERARCHICAL, 11 + 2},
        {CSHIM_ALGORITHM_CAST, CSHIM_ALGORITHM_CAST, 1},
        {CSHIM_ALGORITHM_AUTO, CSHIM_ALGORITHM_HIERARCHICAL, 13},
        {CSHIM_ALGORITHM_AUTO, CSHIM_ALGORITHM_GRID, 7},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP16, cases[i].named);
        call.partners = cases[i].partners;
        assert_int_equal(cshim_plan_call(policy, &call, MIB).algorithm, cases[i].planned);
        call.partners--;
        if (cases[i].planned == cases[i].named ? cases[i].planned != CSHIM_ALGORITHM_CAST
                                               : cases[i].planned == CSHIM_ALGORITHM_GRID)
            assert_int_equal(cshim_plan_call(policy, &call, MIB).reason,
                             CSHIM_REASON_NO_DESCRIPTORS);
        cshim_policy_free(policy);
    }
}

/* A call that needs too much memory is passed through. `auto` must not fall back to one_shot, which
 * sends far more. */
TEST(too_much_memory_is_no_case_for_one_shot)
{
    struct cshim_policy *policy = one_rule(CSHIM_CODEC_RAW, CSHIM_ALGORITHM_AUTO);
    assert_int_equal(plan_mpi(policy, CSHIM_FLOAT64, 2000, 2 * MIB).reason, CSHIM_REASON_NO_MEMORY);
    cshim_policy_free(policy);
}

/* Writes the candidates of a float32 call as "two_shot fp16, ...". */
static void name_candidates(char *names, size_t size, const char *rule, uint32_t ranks,
                            uint32_t nodes, uint64_t bytes)
{
    struct cshim_policy *policy = parse(rule);
    struct cshim_plan_candidate found[CSHIM_PLAN_CANDIDATES_MAX];
    const struct cshim_call call = {.ranks = ranks,
                                    .nodes = nodes,
                                    .ranks_per_node = ranks / nodes,
                                    .bytes = bytes,
                                    .instead = CSHIM_CODEC_NONE};
    const unsigned candidates = cshim_plan_candidates(policy->rules, &call, bytes / 4, found);
    for (unsigned i = 0, used = 0; i < candidates && used < size; i++)
        used += (unsigned)snprintf(names + used, size - used, "%s%s %s", i > 0 ? ", " : "",
                                   cshim_algorithm_name(found[i].algorithm),
                                   cshim_codec_name(found[i].codec));
    cshim_policy_free(policy);
}

TEST(candidates_worth_measuring)
{
    static const struct {
        const char *rule;
        uint32_t ranks, nodes;
        uint64_t bytes;
        const char *candidates;
    } cases[] = {
        {"[rule a]\ncodec = fp16\n", 2, 2, MIB, "one_shot fp16, two_shot fp16, one_shot raw"},
        {"[rule a]\ncodec = fp16\n", 4, 4, 4096,
         "one_shot fp16, two_shot fp16, grid fp16, one_shot raw"},
        {"[rule a]\ncodec = fp16\n", 4, 4, MIB,
         "two_shot fp16, one_shot fp16, grid fp16, two_shot raw"},
        /* one_shot is not a candidate: each of 8 ranks would send its elements seven times. */
        {"[rule a]\ncodec = fp16\n", 8, 8, MIB, "two_shot fp16, grid fp16, two_shot raw"},
        {"[rule a]\ncodec = fp16\n", 8, 4, MIB,
         "hierarchical fp16, two_shot fp16, grid fp16, hierarchical raw"},
        {"[rule a]\ncodec = fp16\nalgorithm = grid\n", 8, 8, MIB, "grid fp16, grid raw"},
        {"[rule a]\ncodec = raw\n", 3, 3, MIB, "two_shot raw"},
        {"[rule a]\ncodec = bounded\nabs_error = 0.1\nalgorithm = two_shot\n", 3, 3, MIB,
         "two_shot bounded"},
        {"[rule a]\ncodec = fp16\nerror_feedback = on\nalgorithm = two_shot\n", 3, 3, MIB,
         "two_shot fp16"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char names[256] = "";
        name_candidates(names, sizeof names, cases[i].rule, cases[i].ranks, cases[i].nodes,
                        cases[i].bytes);
        assert_string_equal(names, cases[i].candidates);
    }
}
