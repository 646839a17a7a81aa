/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the candidates of a class do not depend on which of its calls comes first. With gloo,
 * ranks may see different calls first. */
#include "shim/report/classes.h"
#include "tests/unit/unit.h"

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
    char text[128], message[CSHIM_MESSAGE_MAX];
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        snprintf(text, sizeof text, "[rule r]\ncodec = %s\n", codecs[i]);
        struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "test", message);
        assert_non_null(policy);
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
