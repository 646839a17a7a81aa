/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: each reason, the choice of algorithm, and properties over sizes, ranks, codecs and
 * types, with the bytes on the wire counted message by message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shim/core/plan.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MIB ((uint64_t)1 << 20)

static struct cshim_policy *parse(const char *text)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "p", message);
    if (policy == NULL)
        fail_msg("%s", message);
    return policy;
}

/* A policy with one rule for everything. */
static struct cshim_policy *one_rule(enum cshim_codec_id codec, enum cshim_algorithm algorithm)
{
    char text[128];
    snprintf(text, sizeof text, "[rule all]\ncodec = %s\nalgorithm = %s\n", cshim_codec_name(codec),
             cshim_algorithm_name(algorithm));
    return parse(text);
}

static struct cshim_plan plan_mpi(const struct cshim_policy *policy, enum cshim_dtype dtype,
                                  uint32_t ranks, uint64_t count)
{
    struct cshim_call call = {.dtype = dtype, .ranks = ranks};
    call.bytes = count * cshim_dtype_bytes(dtype);
    return cshim_plan_call(policy, &call, count);
}

static void reasons(void **state)
{
    (void)state;
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
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cshim_plan plan = cshim_plan_call(policy, &cases[i].call, cases[i].count);
        assert_string_equal(cshim_reason_name(plan.reason), cshim_reason_name(cases[i].reason));
        assert_string_equal(plan.rule != NULL ? plan.rule->name : "",
                            cases[i].rule != NULL ? cases[i].rule : "");
        assert_int_equal(plan.segments == 0, plan.reason != CSHIM_REASON_COMPRESS);
        assert_int_equal(plan.bytes_wire == 0, plan.reason != CSHIM_REASON_COMPRESS);
    }
    cshim_policy_free(policy);
}

static void reasons_have_names(void **state)
{
    (void)state;
    for (unsigned a = 0; a < CSHIM_REASON_COUNT; a++) {
        assert_string_not_equal(cshim_reason_name((enum cshim_reason)a), "?");
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(cshim_reason_name((enum cshim_reason)a),
                                    cshim_reason_name((enum cshim_reason)b));
    }
    assert_string_equal(cshim_reason_name(CSHIM_REASON_COUNT), "?");
}

static void algorithms(void **state)
{
    (void)state;
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
        {"hierarchical", 2, 1, CSHIM_ALGORITHM_ONE_SHOT, 1}, /* no nodes to tell apart */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
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

/* Chunks follow each other, end with the segment, are whole grains but for the last, and no rank
 * owns more than its share rounded up to a grain. */
static void check_chunks(uint64_t count, uint32_t ranks)
{
    uint64_t next = 0, share = count / ranks + 1 + CSHIM_GRAIN;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t begin, length;
        cshim_plan_chunk(count, ranks, rank, &begin, &length);
        assert_true(begin == next);
        assert_true(length <= share);
        next += length;
        assert_true(next <= count);
        assert_true(length % CSHIM_GRAIN == 0 || next == count);
    }
    assert_true(next == count);
}

static void chunks_tile_the_segment(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 63, 1024};
    for (size_t r = 0; r < COUNT(ranks); r++) {
        for (uint64_t count = 0; count < 2200; count++)
            check_chunks(count, ranks[r]);
        for (uint64_t count = 1; count <= (uint64_t)1 << 40; count = count * 7 / 2 + 1)
            check_chunks(count, ranks[r]);
    }
}

/* Every message of the plan's algorithm, one by one. */
static uint64_t count_messages(const struct cshim_plan *plan)
{
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < plan->count; at += plan->segment) {
        uint64_t rest = plan->count - at;
        uint64_t elements = rest < plan->segment ? rest : plan->segment;
        for (uint32_t from = 0; from < plan->ranks; from++)
            for (uint32_t to = 0; to < plan->ranks; to++) {
                uint64_t begin, theirs = elements, own = 0;
                if (from == to)
                    continue;
                if (plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT) {
                    cshim_plan_chunk(elements, plan->ranks, to, &begin, &theirs);
                    cshim_plan_chunk(elements, plan->ranks, from, &begin, &own);
                }
                if (theirs > 0)
                    bytes += 32 + cshim_encoded_bytes(plan->codec, plan->dtype, theirs);
                if (own > 0)
                    bytes += 32 + cshim_encoded_bytes(plan->codec, plan->dtype, own);
            }
    }
    return bytes;
}

/* What the design gives as the memory of one rank, from the plan's own segment. */
static uint64_t count_scratch(const struct cshim_plan *plan)
{
    uint64_t ranks = plan->ranks, in_flight = plan->segments;
    if (in_flight > CSHIM_SEGMENTS_IN_FLIGHT)
        in_flight = CSHIM_SEGMENTS_IN_FLIGHT;
    uint64_t chunk = plan->segment / ranks;
    if (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT)
        return in_flight * (ranks + 1) *
               (32 + cshim_encoded_bytes(plan->codec, plan->dtype, plan->segment));
    uint64_t piece = 32 + cshim_encoded_bytes(plan->codec, plan->dtype, chunk);
    return in_flight * (ranks * piece + ranks * piece + piece + ranks * piece);
}

static void check_plan(const struct cshim_plan *plan)
{
    uint64_t whole = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ? 1 : plan->ranks;
    uint64_t bytes = plan->count * cshim_dtype_bytes(plan->dtype);
    assert_int_equal(plan->reason, CSHIM_REASON_COMPRESS);
    assert_true(plan->segment > 0 && plan->segment % (whole * CSHIM_GRAIN) == 0);
    assert_true((plan->segments - 1) * plan->segment < plan->count);
    assert_true(plan->segments * plan->segment >= plan->count);
    /* No larger than the call needs. */
    assert_true(plan->segment < plan->count + whole * CSHIM_GRAIN);
    assert_true(plan->scratch_bytes <= 32 * MIB);
    assert_true(plan->piece_bytes <= 256 << 10 || plan->segment == whole * CSHIM_GRAIN);
    assert_true(plan->piece_bytes ==
                32 + cshim_encoded_bytes(plan->codec, plan->dtype, plan->segment / whole));
    assert_true(plan->slot_bytes % plan->piece_bytes == 0);
    assert_true(plan->scratch_bytes % plan->slot_bytes == 0);
    assert_true(plan->bytes_native == 2 * (plan->ranks - (uint64_t)1) * bytes);
    assert_true(plan->expected_error >= 0);
    if (plan->algorithm == CSHIM_ALGORITHM_CAST) {
        unsigned element = cshim_codec_info(plan->codec)->element_bits / 8;
        element = element != 0 ? element : (unsigned)cshim_dtype_bytes(plan->dtype);
        assert_true(plan->bytes_wire == 2 * (plan->ranks - (uint64_t)1) * plan->count * element);
        return;
    }
    assert_true(plan->scratch_bytes == count_scratch(plan));
    /* Counting every message of many segments among many ranks would take long. */
    if (plan->segments * plan->ranks * plan->ranks <= 5000)
        assert_true(plan->bytes_wire == count_messages(plan));
}

/* Hierarchical: every message between the nodes, one by one, and what the scratch must hold. */
static void check_levels(enum cshim_codec_id codec, const struct cshim_call *facts, uint64_t count)
{
    struct cshim_policy *policy = one_rule(codec, CSHIM_ALGORITHM_HIERARCHICAL);
    struct cshim_call call = *facts;
    call.bytes = count * cshim_dtype_bytes(call.dtype);
    struct cshim_plan plan = cshim_plan_call(policy, &call, count);
    uint64_t network = 0, whole = (uint64_t)call.nodes * call.ranks_per_node;
    assert_int_equal(plan.algorithm, CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(plan.peers, call.nodes);
    assert_int_equal(plan.shares, call.ranks_per_node);
    assert_true(plan.segment % (whole * CSHIM_GRAIN) == 0);
    assert_true(plan.segments == (count + plan.segment - 1) / plan.segment);
    assert_true(plan.scratch_bytes <= 32 * MIB);
    assert_true(plan.stage_bytes ==
                plan.segment / call.ranks_per_node * cshim_dtype_bytes(call.dtype));
    assert_true(plan.slot_bytes ==
                (3 * (uint64_t)call.nodes + 1) * plan.piece_bytes + plan.stage_bytes);
    for (uint64_t at = 0; at < count; at += plan.segment)
        for (uint32_t share = 0; share < call.ranks_per_node; share++) {
            uint64_t begin, length, chunk;
            cshim_plan_chunk(count - at < plan.segment ? count - at : plan.segment,
                             call.ranks_per_node, share, &begin, &length);
            for (uint32_t owner = 0; owner < call.nodes; owner++) {
                cshim_plan_chunk(length, call.nodes, owner, &begin, &chunk);
                if (chunk > 0)
                    network += 2 * ((uint64_t)call.nodes - 1) *
                               (32 + cshim_encoded_bytes(codec, call.dtype, chunk));
            }
        }
    assert_true(plan.bytes_network == network);
    assert_true(plan.bytes_wire == network + 2 * ((uint64_t)call.ranks - call.nodes) * call.bytes);
    cshim_policy_free(policy);
}

static void hierarchical_counts_its_messages(void **state)
{
    (void)state;
    static const struct cshim_call layouts[] = {
        {.ranks = 4, .nodes = 2, .ranks_per_node = 2},
        {.ranks = 4, .nodes = 2, .ranks_per_node = 1},
        {.ranks = 64, .nodes = 8, .ranks_per_node = 8},
        {.ranks = 7, .nodes = 3, .ranks_per_node = 2},
        {.ranks = 1024, .nodes = 16, .ranks_per_node = 64},
        {.dtype = CSHIM_FLOAT64, .ranks = 6, .nodes = 2, .ranks_per_node = 3},
    };
    for (size_t i = 0; i < COUNT(layouts); i++)
        for (uint64_t count = 1; count < (uint64_t)1 << 28; count = count * 5 / 2 + 1) {
            check_levels(CSHIM_CODEC_FP8_E4M3, &layouts[i], count);
            check_levels(CSHIM_CODEC_FP16, &layouts[i], count);
        }
}

/* Several ranks on each of several nodes share the network's work, if there is enough of it. */
static void auto_sees_nodes(void **state)
{
    (void)state;
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
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cshim_call call = {.bytes = 4 * cases[i].count,
                                  .ranks = cases[i].ranks,
                                  .nodes = cases[i].nodes,
                                  .ranks_per_node = cases[i].ranks_per_node};
        struct cshim_plan plan = cshim_plan_call(policy, &call, cases[i].count);
        assert_string_equal(cshim_algorithm_name(plan.algorithm),
                            cshim_algorithm_name(cases[i].algorithm));
    }
    /* Two nodes of two ranks: the flat exchange sends twice as much between them. */
    struct cshim_policy *flat = one_rule(CSHIM_CODEC_FP16, CSHIM_ALGORITHM_TWO_SHOT);
    struct cshim_call call = {.bytes = 64 * MIB, .ranks = 4, .nodes = 2, .ranks_per_node = 2};
    uint64_t levels = cshim_plan_call(policy, &call, 16 * MIB).bytes_network;
    uint64_t whole = cshim_plan_call(flat, &call, 16 * MIB).bytes_network;
    assert_in_range(whole * 1000 / levels, 1999, 2010);
    cshim_policy_free(flat);
    cshim_policy_free(policy);
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

static void check_counts(enum cshim_codec_id codec, enum cshim_algorithm algorithm,
                         enum cshim_dtype dtype, uint32_t ranks)
{
    struct cshim_policy *policy = one_rule(codec, algorithm);
    for (uint64_t count = 1; count <= (uint64_t)1 << 40; count = count * 3 / 2 + 1) {
        struct cshim_plan plan = plan_mpi(policy, dtype, ranks, count);
        struct cshim_plan again = plan_mpi(policy, dtype, ranks, count);
        check_plan(&plan);
        assert_same(&plan, &again);
    }
    cshim_policy_free(policy);
}

static void plans_hold_their_properties(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {2, 3, 4, 5, 7, 8, 64, 1000, 1024};
    for (unsigned codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++)
        for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
            for (unsigned algorithm = 0; algorithm < CSHIM_ALGORITHM_COUNT; algorithm++)
                for (size_t r = 0; r < COUNT(ranks); r++)
                    if (cshim_codec_carries(codec, dtype) &&
                        (algorithm != CSHIM_ALGORITHM_CAST ||
                         cshim_codec_info(codec)->element_bits == 0 ||
                         cshim_codec_info(codec)->element_bits > 8))
                        check_counts(codec, algorithm, dtype, ranks[r]);
}

/* Full segments of large calls are cut into pieces that keep a link busy. */
static void large_calls_have_large_pieces(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= 16; ranks++) {
        struct cshim_policy *policy = one_rule(CSHIM_CODEC_FP8_E4M3, CSHIM_ALGORITHM_TWO_SHOT);
        struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT32, ranks, (uint64_t)1 << 30);
        uint64_t piece = cshim_encoded_bytes(plan.codec, plan.dtype, plan.segment / ranks);
        assert_in_range(piece, 32 << 10, 60 << 10);
        /* Headers, scales and padding cost less than one part in a hundred. */
        assert_true(plan.bytes_native / 4 * 101 / 100 > plan.bytes_wire);
        cshim_policy_free(policy);
    }
}

/* More elements never take fewer bytes, but for one header and one grain's padding of each rank. */
static void bytes_grow_with_the_count(void **state)
{
    (void)state;
    static const enum cshim_algorithm algorithms[] = {CSHIM_ALGORITHM_ONE_SHOT,
                                                      CSHIM_ALGORITHM_TWO_SHOT};
    for (size_t a = 0; a < COUNT(algorithms); a++)
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

static void figures_stop_at_the_largest(void **state)
{
    (void)state;
    struct cshim_policy *policy = one_rule(CSHIM_CODEC_RAW, CSHIM_ALGORITHM_ONE_SHOT);
    struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT64, 1024, (uint64_t)1 << 50);
    assert_true(plan.bytes_wire == UINT64_MAX);
    assert_true(plan.bytes_native == 2 * (uint64_t)1023 << 53);
    cshim_policy_free(policy);
}

/* From so many ranks on that a grain of each is too much, calls are passed on. */
static void too_many_ranks_for_the_scratch(void **state)
{
    (void)state;
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

/* The tensors of the example's convolutional network, under the example's policy. */
static void example_policy_fits_the_example(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        enum cshim_reason reason;
        enum cshim_codec_id codec;
        uint64_t hundredths; /* bytes_native / bytes_wire at least */
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
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            struct cshim_plan plan = plan_mpi(policy, CSHIM_FLOAT32, ranks, cases[i].count);
            assert_int_equal(plan.reason, cases[i].reason);
            assert_int_equal(plan.codec, cases[i].codec);
            assert_true(plan.bytes_native * 100 >= plan.bytes_wire * cases[i].hundredths);
        }
    cshim_policy_free(policy);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),
        cmocka_unit_test(reasons_have_names),
        cmocka_unit_test(algorithms),
        cmocka_unit_test(chunks_tile_the_segment),
        cmocka_unit_test(hierarchical_counts_its_messages),
        cmocka_unit_test(auto_sees_nodes),
        cmocka_unit_test(plans_hold_their_properties),
        cmocka_unit_test(large_calls_have_large_pieces),
        cmocka_unit_test(bytes_grow_with_the_count),
        cmocka_unit_test(figures_stop_at_the_largest),
        cmocka_unit_test(too_many_ranks_for_the_scratch),
        cmocka_unit_test(example_policy_fits_the_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
