/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the candidates of a class do not depend on which of its calls comes first (with gloo,
 * ranks may see different calls first), and the native time that the report estimates. */
#include <math.h>

#include "shim/report/classes.h"
#include "tests/unit/policy.h"

static void check_class(const struct cshim_rule *rule, struct cshim_call call, uint32_t size_class)
{
    const uint64_t begin = (cshim_size_class_begin(size_class) + 3) / 4,
                   end = cshim_size_class_begin(size_class + 1) / 4;
    struct cshim_class first, other;
    call.bytes = 4 * begin;
    assert_true(cshim_class_start(&first, NULL, rule, &call));
    for (uint64_t i = 1; i <= 16 && begin < end; i++) {
        call.bytes = 4 * (begin + (end - 1 - begin) * i / 16);
        const struct cshim_learned_choice key = cshim_learned_key(rule, &call);
        assert_true(cshim_class_has(&first, rule, call.op, &key));
        assert_true(cshim_class_start(&other, NULL, rule, &call));
        assert_int_equal(other.choice.candidates, first.choice.candidates);
        assert_int_equal(other.choice.prior, first.choice.prior);
        assert_memory_equal(other.algorithms, first.algorithms, sizeof first.algorithms);
        assert_memory_equal(other.codecs, first.codecs, sizeof first.codecs);
    }
}

TEST(candidates_follow_from_the_class_alone)
{
    static const char *const codecs[] = {"raw", "fp16", "fp8_e4m3", "int4", "lossless"};
    char text[128];
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        snprintf(text, sizeof text, "[rule r]\ncodec = %s\n", codecs[i]);
        struct cshim_policy *policy = parse(text);
        for (uint32_t ranks = 2; ranks <= 8; ranks++)
            for (uint32_t size_class = 4; size_class < 54; size_class++) {
                const struct cshim_call call = {.library = CSHIM_GLOO,
                                                .ranks = ranks,
                                                .nodes = ranks,
                                                .ranks_per_node = 1,
                                                .instead = CSHIM_CODEC_NONE};
                check_class(policy->rules, call, size_class);
            }
        cshim_policy_free(policy);
    }
}

/* On rank 0, native calls take 4 ms and compressed ones 1 ms, which is what the report counts. The
 * ranks agree on the durations of a rank whose calls take twice as long. */
TEST(the_native_time_is_estimated_by_the_calls_of_rank_0)
{
    static const struct cshim_call call = {.library = CSHIM_MPI,
                                           .ranks = 4,
                                           .nodes = 4,
                                           .ranks_per_node = 1,
                                           .bytes = 1 << 20,
                                           .instead = CSHIM_CODEC_NONE};
    struct cshim_policy *policy = parse("[rule r]\ncodec = fp8_e4m3\n");
    struct cshim_ledger ledger;
    struct cshim_class class;
    assert_true(cshim_ledger_init(&ledger, policy));
    assert_true(cshim_class_start(&class, NULL, policy->rules, &call));
    for (unsigned i = 0; i < 300; i++) {
        if (cshim_choice_is_due(&class.choice)) {
            for (unsigned k = 0; k < class.choice.samples; k++)
                class.choice.seconds[k] *= 2;
            cshim_class_decide(&class, &ledger);
        }
        const unsigned candidate = cshim_choice_begin(&class.choice);
        cshim_class_end(&class, candidate, candidate == CSHIM_CANDIDATE_NATIVE ? 4e-3 : 1e-3);
    }
    cshim_class_count(&class, &ledger);
    const struct cshim_row total = cshim_ledger_total(&ledger);
    assert_in_range(total.native_calls, 4, 50);
    assert_int_equal(total.native_calls + total.compared_calls, 300);
    assert_true(fabs(total.seconds_native - 4e-3 * (double)total.native_calls) < 1e-9);
    assert_true(fabs(total.seconds_compared - 1e-3 * (double)total.compared_calls) < 1e-9);
    assert_true(fabs(total.seconds_native_estimate / (4e-3 * (double)total.compared_calls) - 1) <
                1e-6);
    cshim_ledger_free(&ledger);
    cshim_policy_free(policy);
}
