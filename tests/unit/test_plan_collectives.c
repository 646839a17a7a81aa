/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of reduce, reduce_scatter and nonblocking calls: which way they go, and the bytes they
 * send, compared with a count of every message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "shim/core/plan.h"

static struct cshim_policy *parse(const char *text)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "test", message);
    assert_non_null(policy);
    return policy;
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

static uint64_t message(const struct cshim_plan *plan, uint64_t elements)
{
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

/* Every message of a reduce: parts to their owners, or to the root at once, and sums to the root.
 */
static uint64_t count_reduce(const struct cshim_plan *plan)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < plan->segments; i++) {
        const uint64_t left = plan->count - i * plan->segment;
        const uint64_t length = left < plan->segment ? left : plan->segment;
        if (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT) {
            bytes += (plan->ranks - 1) * message(plan, length);
            continue;
        }
        for (uint32_t owner = 0; owner < plan->ranks; owner++) {
            uint64_t begin, chunk;
            cshim_plan_chunk(length, plan->ranks, owner, &begin, &chunk);
            bytes += (plan->ranks - 1) * message(plan, chunk);
            bytes += owner != plan->root ? message(plan, chunk) : 0;
        }
    }
    return bytes;
}

/* Every message of a reduce_scatter with results of one length, the last perhaps shorter. */
static uint64_t count_scatter(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / plan->ranks;
    uint64_t bytes = 0, counted = 0;
    for (uint64_t begin = 0; begin < plan->count; begin += plan->block) {
        const uint64_t left = plan->count - begin;
        const uint64_t length = left < plan->block ? left : plan->block;
        assert_true(plan->segments * chunk >= length);
        for (uint64_t done = 0; done < length; done += chunk) {
            const uint64_t elements = length - done < chunk ? length - done : chunk;
            bytes += (plan->ranks - 1) * message(plan, elements);
            counted += elements;
        }
    }
    assert_true(counted == plan->count);
    return bytes;
}

static void bytes_are_those_of_the_messages(void **state)
{
    static const uint64_t counts[] = {1, 255, 256, 257, 4096, 100003, 2000000, 33554432};
    static const char *const texts[] = {"[rule a]\ncodec = fp8_e4m3\n",
                                        "[rule a]\ncodec = int4\nalgorithm = two_shot\n",
                                        "[rule a]\ncodec = raw\nalgorithm = one_shot\n"};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct cshim_policy *policy = parse(texts[t]);
        for (uint32_t ranks = 2; ranks < 40; ranks += 1 + ranks / 5) {
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                struct cshim_call call = call_of(CSHIM_REDUCE, ranks, counts[i]);
                call.root = (uint32_t)i % ranks;
                struct cshim_plan plan = cshim_plan_call(policy, &call, counts[i]);
                assert_int_equal(plan.reason, CSHIM_REASON_COMPRESS);
                assert_true(plan.bytes_wire == count_reduce(&plan));
                assert_true(plan.bytes_native == (ranks - 1) * call.bytes);
                call = call_of(CSHIM_REDUCE_SCATTER, ranks, counts[i]);
                plan = cshim_plan_call(policy, &call, counts[i]);
                assert_true(plan.bytes_wire == count_scatter(&plan));
                assert_true(plan.bytes_native == (ranks - 1) * call.bytes);
                assert_true(plan.scratch_bytes <= CSHIM_SCRATCH_LIMIT);
                assert_int_equal(plan.quantizations, 1);
            }
        }
        cshim_policy_free(policy);
    }
}

static void results_may_differ_in_length(void **state)
{
    struct cshim_policy *policy = parse("[rule a]\ncodec = fp16\n");
    struct cshim_call call = call_of(CSHIM_REDUCE_SCATTER, 4, 1000000);
    (void)state;
    call.block = 900000;
    const struct cshim_plan plan = cshim_plan_call(policy, &call, 1000000);
    assert_true(plan.segments * (plan.segment / plan.ranks) >= 900000);
    assert_true((plan.segments - 1) * (plan.segment / plan.ranks) < 900000);
    assert_true(plan.bytes_wire == count_scatter(&plan));
    cshim_policy_free(policy);
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

static void ways(void **state)
{
    (void)state;
    const enum cshim_algorithm gathered = CSHIM_ALGORITHM_ONE_SHOT;
    const enum cshim_algorithm two_shot = CSHIM_ALGORITHM_TWO_SHOT;
    assert_int_equal(way("auto", CSHIM_ALLREDUCE, false, 8, 1000000), CSHIM_ALGORITHM_HIERARCHICAL);
    assert_int_equal(way("auto", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("hierarchical", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("cast", CSHIM_ALLREDUCE, true, 8, 1000000), two_shot);
    assert_int_equal(way("one_shot", CSHIM_ALLREDUCE, true, 8, 1000000), gathered);
    assert_int_equal(way("cast", CSHIM_ALLREDUCE, false, 8, 1000000), CSHIM_ALGORITHM_CAST);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 8, 1000000), two_shot);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 2, 1000000), gathered);
    assert_int_equal(way("auto", CSHIM_REDUCE, false, 4, 1000), gathered);
    assert_int_equal(way("hierarchical", CSHIM_REDUCE, false, 8, 1000000), two_shot);
    assert_int_equal(way("allgather", CSHIM_REDUCE_SCATTER, false, 2, 1000), two_shot);
}

/* What NCCL has not: max_rel_error. */
static void options_of_libraries(void **state)
{
    struct cshim_policy *policy = parse("[rule a]\ncodec = fp16\nmax_rel_error = 0.1\n");
    struct cshim_call call = call_of(CSHIM_ALLREDUCE, 4, 1000);
    (void)state;
    assert_int_equal(cshim_plan_call(policy, &call, 1000).reason, CSHIM_REASON_COMPRESS);
    call.library = CSHIM_NCCL;
    assert_int_equal(cshim_plan_call(policy, &call, 1000).reason, CSHIM_REASON_OPTION);
    cshim_policy_free(policy);
}

static void rules_name_collectives(void **state)
{
    struct cshim_policy *policy =
        parse("[rule a]\ncollective = reduce\nmin_size = 1KiB\ncodec = fp16\n"
              "[rule b]\ncollective = reduce_scatter, allreduce\nmin_size = 2KiB\ncodec = int8\n");
    (void)state;
    assert_true(cshim_plan_too_small(policy, CSHIM_REDUCE, CSHIM_FLOAT32, 1000));
    assert_false(cshim_plan_too_small(policy, CSHIM_REDUCE, CSHIM_FLOAT32, 1024));
    assert_true(cshim_plan_too_small(policy, CSHIM_ALLREDUCE, CSHIM_FLOAT32, 1024));
    const struct cshim_call call = call_of(CSHIM_REDUCE_SCATTER, 4, 1000);
    assert_int_equal(cshim_plan_call(policy, &call, 1000).codec, CSHIM_CODEC_INT8);
    cshim_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_messages),
        cmocka_unit_test(results_may_differ_in_length),
        cmocka_unit_test(ways),
        cmocka_unit_test(options_of_libraries),
        cmocka_unit_test(rules_name_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
