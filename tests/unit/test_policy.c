/* SPDX-License-Identifier: Apache-2.0 */
/* Tests policy.ini: accepted texts, matching, and errors with their lines. */

#include "policy/list.h"
#include "tests/unit/policy.h"

static void assert_refused(const char *text, const char *expected)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "policy.ini", message);
    if (policy != NULL)
        fail_msg("accepted: %s", text);
    assert_string_equal(message, expected);
}

TEST(every_key_is_read)
{
    struct cshim_policy *policy = parse("\xEF\xBB\xBF; comment\r\n"
                                        "[compshim] # comment\n"
                                        "report = out/{jobid}.{rank}.json ; comment\n"
                                        "log=debug\n"
                                        "seed = 12345\n"
                                        "feedback_memory = 3MiB\n"
                                        "  # comment\n"
                                        "[rule  a-1.x_Y]\n"
                                        "    library = nccl\n"
                                        "    collective = allreduce\n"
                                        "\tdtype = float32 ,bfloat16\n"
                                        "op = avg\n"
                                        "ranks = 3-8\n"
                                        "min_size = 1KB\n"
                                        "max_size = 1.5MiB\n"
                                        "codec = int8\n"
                                        "algorithm = hierarchical\n"
                                        "error_feedback = on\n"
                                        "rounding = stochastic\n"
                                        "nodes = 2-\n"
                                        "max_rel_error = 0.05\n"
                                        "verify = 100\n"
                                        "check_ranks = 7\n"
                                        "[rule sparse]\n"
                                        "library = gloo\n"
                                        "ranks = 9\n"
                                        "codec = topk\n"
                                        "error_feedback = on\n"
                                        "keep = 9\n"
                                        "worth = always\n"
                                        "[rule field]\n"
                                        "codec = bounded\n"
                                        "gather_codec = raw\n"
                                        "library = gloo\n"
                                        "abs_error = 0.25");
    const struct cshim_rule *rule = policy->rules;
    assert_string_equal(policy->source, "policy.ini");
    assert_string_equal(policy->report, "out/{jobid}.{rank}.json");
    assert_int_equal(policy->log, CSHIM_LOG_DEBUG);
    assert_int_equal(policy->rule_count, 3);
    assert_string_equal(rule->name, "a-1.x_Y");
    assert_int_equal(rule->line, 8);
    assert_int_equal(rule->libraries, 1u << CSHIM_NCCL);
    assert_int_equal(rule->collectives, 1u << CSHIM_ALLREDUCE);
    assert_int_equal(rule->dtypes, 1u << CSHIM_FLOAT32 | 1u << CSHIM_BFLOAT16);
    assert_int_equal(rule->ops, 1u << CSHIM_AVG);
    assert_int_equal(rule->min_ranks, 3);
    assert_int_equal(rule->max_ranks, 8);
    assert_int_equal(rule->min_size, 1000);
    assert_int_equal(rule->max_size, 3 << 19);
    assert_int_equal(rule->codec, CSHIM_CODEC_INT8);
    assert_int_equal(rule->algorithm, CSHIM_ALGORITHM_HIERARCHICAL);
    assert_true(rule->error_feedback && rule->stochastic);
    assert_int_equal(rule->min_nodes, 2);
    assert_int_equal(rule->max_nodes, UINT32_MAX);
    assert_true(rule->max_rel_error == 0.05);
    assert_int_equal(rule->verify, 100);
    assert_int_equal(rule->check_ranks, 7);
    assert_int_equal(rule[1].keep, 9);
    assert_int_equal(rule[1].worth, CSHIM_WORTH_ALWAYS);
    assert_int_equal(rule[2].gather_codec, CSHIM_CODEC_RAW);
    assert_true(rule[2].abs_error == 0.25);
    assert_int_equal(policy->seed, 12345);
    assert_int_equal(policy->feedback_memory, 3 << 20);
    assert_false(cshim_policy_compresses(policy, CSHIM_MPI, CSHIM_ALLGATHER, UINT64_MAX));
    cshim_policy_free(policy);
}

TEST(what_is_left_out_matches_everything)
{
    struct cshim_policy *policy = parse("[rule all]\ncodec = raw\n");
    assert_string_equal(policy->report, "summary");
    assert_int_equal(policy->log, CSHIM_LOG_WARN);
    assert_int_equal(policy->rules[0].algorithm, CSHIM_ALGORITHM_AUTO);
    for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
        for (unsigned library = 0; library < CSHIM_LIBRARY_COUNT; library++) {
            struct cshim_call call = {.library = library, .dtype = dtype, .op = CSHIM_AVG};
            call.ranks = 1;
            assert_ptr_equal(cshim_policy_match(policy, &call), policy->rules);
            assert_true(cshim_policy_compresses(policy, library, CSHIM_ALLREDUCE, 0));
            call = (struct cshim_call){.library = library, .dtype = dtype, .bytes = UINT64_MAX};
            call.ranks = UINT32_MAX;
            assert_ptr_equal(cshim_policy_match(policy, &call), policy->rules);
        }
    struct cshim_call other = {.dtype = CSHIM_DTYPE_OTHER, .ranks = 2};
    assert_null(cshim_policy_match(policy, &other));
    cshim_policy_free(policy);
    policy = parse("");
    assert_int_equal(policy->rule_count, 0);
    assert_null(cshim_policy_match(policy, &other));
    cshim_policy_free(policy);
}

/* Compares as strcasecmp() may in a program's locale: in Turkish, I is not the capital of i. */
int strcasecmp(const char *a, const char *b)
{
    return strcmp(a, b);
}

TEST(words_may_be_in_capitals)
{
    char message[CSHIM_MESSAGE_MAX];
    static const char text[] = "[compshim]\nreport = OFF\n[rule a]\ncodec = FP16\nverify = OFF\n"
                               "library = MPI\nmin_size = 64KIB\n";
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "capitals", message);
    assert_non_null(policy);
    assert_string_equal(policy->report, "off");
    assert_int_equal(policy->rules[0].codec, CSHIM_CODEC_FP16);
    assert_int_equal(policy->rules[0].verify, 0);
    cshim_policy_free(policy);
}

TEST(first_match_decides)
{
    struct cshim_policy *policy = parse("[rule small]\nmax_size = 64KiB\ncodec = none\n"
                                        "[rule medium]\nmax_size = 1MiB\ncodec = fp16\n"
                                        "[rule large]\nranks = 4-\ncodec = fp8_e4m3\n");
    static const struct {
        uint64_t bytes;
        uint32_t ranks;
        const char *rule;
    } cases[] = {
        {0, 2, "small"},        {65536, 2, "small"},   {65537, 2, "medium"},
        {1048576, 9, "medium"}, {1048577, 4, "large"}, {1048577, 3, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_call call = {.bytes = cases[i].bytes, .ranks = cases[i].ranks};
        const struct cshim_rule *rule = cshim_policy_match(policy, &call);
        assert_int_equal(rule == NULL, cases[i].rule == NULL);
        if (rule != NULL)
            assert_string_equal(rule->name, cases[i].rule);
    }
    cshim_policy_free(policy);
}

TEST(each_fact_is_compared)
{
    struct cshim_policy *policy =
        parse("[rule one]\nlibrary = mpi\ndtype = float64\nop = sum\nranks = 4\n"
              "min_size = 10\nmax_size = 20\ncodec = fp32\n");
    const struct cshim_call good = {.dtype = CSHIM_FLOAT64, .bytes = 15, .ranks = 4};
    struct cshim_call calls[7];
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = good;
    calls[0].library = CSHIM_NCCL;
    calls[1].dtype = CSHIM_FLOAT32;
    calls[2].op = CSHIM_AVG;
    calls[3].ranks = 3;
    calls[4].ranks = 5;
    calls[5].bytes = 9;
    calls[6].bytes = 21;
    assert_non_null(cshim_policy_match(policy, &good));
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        assert_null(cshim_policy_match(policy, &calls[i]));
    cshim_policy_free(policy);
}

TEST(section_errors)
{
    assert_refused("codec = fp16\n", "policy.ini:1: key 'codec' is outside a section (begin with "
                                     "[compshim] or [rule NAME])");
    assert_refused("\n[compshm]\n",
                   "policy.ini:2: unknown section 'compshm' (did you mean 'compshim'?)");
    assert_refused("[rul big]\n",
                   "policy.ini:1: unknown section 'rul big' (did you mean 'rule big'?)");
    assert_refused("[rulea]\n",
                   "policy.ini:1: unknown section 'rulea' (did you mean 'rule NAME'?)");
    assert_refused("[defaults]\n",
                   "policy.ini:1: unknown section 'defaults' (known: compshim, rule NAME)");
    assert_refused("[compshim x]\n",
                   "policy.ini:1: unknown section 'compshim x' (did you mean 'compshim'?)");
    assert_refused("[compshim\n", "policy.ini:1: a section header is [compshim] or [rule NAME]");
    assert_refused("[", "policy.ini:1: a section header is [compshim] or [rule NAME]");
    assert_refused("[compshim]\n[compshim]\n", "policy.ini:2: duplicate section [compshim]");
    assert_refused("[rule]\n", "policy.ini:1: a rule needs a name: [rule NAME]");
    assert_refused("[rule a b]\n",
                   "policy.ini:1: rule name 'a b' may hold letters, digits, '_', '-' and '.' only");
    assert_refused("[rule a123456789b123456789c123456789d123456789e123456789f123456789g123]\n",
                   "policy.ini:1: the rule's name is longer than 63 characters");
    assert_refused("[rule a]\nmax_size = 1\ncodec = raw\n[rule a]\ncodec = raw\n",
                   "policy.ini:4: duplicate rule 'a' (the first is in line 1)");
}

TEST(key_errors)
{
    assert_refused("; 1\n[compshim]\nlog = warn\n\n[rule a]\nmax_size = 1\ncodc = fp8\n",
                   "policy.ini:7: unknown key 'codc' (did you mean 'codec'?)");
    assert_refused("[compshim]\ncodec = fp16\n",
                   "policy.ini:2: unknown key 'codec' (known: report, log, seed, feedback_memory)");
    assert_refused("[compshim]\nseed = -1\n",
                   "policy.ini:2: malformed seed '-1' (write a whole number)");
    assert_refused("[compshim]\nfeedback_memory = much\n",
                   "policy.ini:2: malformed feedback_memory 'much' (write a size, as in 1GiB)");
    assert_refused("[rule a]\ncodec = raw\ncodec = raw\n",
                   "policy.ini:3: duplicate key 'codec' in this section");
    assert_refused("[rule a]\ncodec = ; nothing\n", "policy.ini:2: key 'codec' has no value");
    assert_refused("[rule a]\ncodec\n", "policy.ini:2: neither '[section]' nor 'key = value'");
    assert_refused("[rule a]\ncodec\n[rule a]\n",
                   "policy.ini:2: neither '[section]' nor 'key = value'\n"
                   "compshim: policy.ini:3: duplicate rule 'a' (the first is in line 1)");
    assert_refused(
        "[rule a]\n  codec = raw\n  log = warn\n",
        "policy.ini:3: unknown key 'log' (known: library, collective, dtype, op, ranks, "
        "nodes, min_size, max_size, codec, gather_codec, algorithm, worth, "
        "error_feedback, rounding, keep, abs_error, max_rel_error, verify, check_ranks)");
}

TEST(value_errors)
{
    static const struct {
        const char *line;
        const char *error;
    } cases[] = {
        {"codec = fp8", "unknown codec 'fp8' (did you mean 'fp8_e4m3'?)"},
        {"library = mpi, ncl", "unknown library 'ncl' (did you mean 'nccl'?)"},
        {"library = mpi,", "'mpi,' has an empty item"},
        {"collective = alreduce", "unknown collective 'alreduce' (did you mean 'allreduce'?)"},
        {"dtype = float", "unknown dtype 'float' (did you mean 'float32'?)"},
        {"dtype = complex", "unknown dtype 'complex' (known: float32, float64, float16, bfloat16)"},
        {"op = max", "unknown op 'max' (known: sum, avg)"},
        {"algorithm = two-shot", "unknown algorithm 'two-shot' (did you mean 'two_shot'?)"},
        {"error_feedback = yes", "unknown error_feedback 'yes' (known: off, on)"},
        {"nodes = 0-2", "malformed nodes '0-2' (write 4, 2-8 or 2-)"},
        {"verify = 0", "malformed verify '0' (write off, or 100 for every 100th call)"},
        {"check_ranks = all",
         "malformed check_ranks 'all' (write off, or 100 for every 100th call)"},
        {"max_rel_error = 1%",
         "malformed max_rel_error '1%' (write a number between 0 and 1, as in 0.01)"},
        {"max_rel_error = nan",
         "malformed max_rel_error 'nan' (write a number between 0 and 1, as in 0.01)"},
        {"keep = 65", "malformed keep '65' (write a number from 1 to 64)"},
        {"keep = 0", "malformed keep '0' (write a number from 1 to 64)"},
        {"abs_error = 0",
         "malformed abs_error '0' (write a number from 1e-30 to 1e30, as in 1e-4)"},
        {"abs_error = 1e31",
         "malformed abs_error '1e31' (write a number from 1e-30 to 1e30, as in 1e-4)"},
        {"rounding = nearst", "unknown rounding 'nearst' (did you mean 'nearest'?)"},
        {"ranks = 0", "malformed ranks '0' (write 4, 2-8 or 2-)"},
        {"ranks = -4", "malformed ranks '-4' (write 4, 2-8 or 2-)"},
        {"ranks = 2-4-8", "malformed ranks '2-4-8' (write 4, 2-8 or 2-)"},
        {"ranks = 4294967296", "malformed ranks '4294967296' (write 4, 2-8 or 2-)"},
        {"ranks = 8-2", "ranks '8-2' run backwards"},
        {"min_size = 64Kit",
         "malformed size '64Kit' (write bytes, or B, KB, KiB, MB, MiB, GB, GiB, "
         "as in 64KiB)"},
        {"min_size = 2KiB\nmax_size = 1KiB", "min_size is above max_size"},
        {"max_size = 1KiB\nmin_size = 2KiB", "min_size is above max_size"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[256], expected[CSHIM_MESSAGE_MAX];
        unsigned line = strchr(cases[i].line, '\n') != NULL ? 3 : 2;
        snprintf(text, sizeof text, "[rule a]\n%s\n", cases[i].line);
        snprintf(expected, sizeof expected, "policy.ini:%u: %s", line, cases[i].error);
        assert_refused(text, expected);
    }
}

/* If a rule's key is misspelt, the key is not also reported as missing. */
TEST(all_errors_at_once)
{
    assert_refused(
        "[rule a]\ncodc = fp16\n[rule b\nx = 1\n[rule c]\nlog = warn\ncodec = none\n"
        "[rule d]\nno line\n[rule e]\n[rule f]\n",
        "policy.ini:2: unknown key 'codc' (did you mean 'codec'?)\n"
        "compshim: policy.ini:3: a section header is [compshim] or [rule NAME]\n"
        "compshim: policy.ini:6: unknown key 'log' (known: library, collective, dtype, op, ranks, "
        "nodes, min_size, max_size, codec, gather_codec, algorithm, worth, "
        "error_feedback, rounding, keep, abs_error, max_rel_error, verify, check_ranks)\n"
        "compshim: policy.ini:9: neither '[section]' nor 'key = value'\n"
        "compshim: and more errors");
}

TEST(general_errors)
{
    assert_refused("[compshim]\nreport = sumary\n",
                   "policy.ini:2: unknown report 'sumary' (did you mean 'summary'?)");
    assert_refused("[compshim]\nreport = yes\n", "policy.ini:2: unknown report 'yes' (known: off, "
                                                 "summary, or a file, as in ./run.json)");
    assert_refused("[compshim]\nreport = a.{host}\n",
                   "policy.ini:2: 'a.{host}' may hold {rank} and {jobid} only in braces");
    assert_refused("[compshim]\nlog = warning\n",
                   "policy.ini:2: unknown log level 'warning' (did you mean 'warn'?)");
}

TEST(rule_errors)
{
    assert_refused("\n[rule a]\nmax_size = 1\n[rule b]\ncodec = raw\n",
                   "policy.ini:2: rule 'a' has no codec (add 'codec = ...', or 'codec = none')");
    assert_refused("[rule a]",
                   "policy.ini:1: rule 'a' has no codec (add 'codec = ...', or 'codec = "
                   "none')");
    assert_refused("[rule a]\nmax_size = 1\ncodec = raw\n[rule b]\n",
                   "policy.ini:4: rule 'b' has no codec (add 'codec = ...', or 'codec = none')");
    assert_refused("[rule a]\ncodec = fp16\ndtype = float32, bfloat16\n",
                   "policy.ini:1: rule 'a': codec 'fp16' cannot carry dtype 'bfloat16'");
    assert_refused("[rule a]\nalgorithm = allreduce\ncodec = fp8_e5m2\n",
                   "policy.ini:1: rule 'a': algorithm 'allreduce' needs codec raw, fp32, fp16 or "
                   "bf16, not 'fp8_e5m2' (use two_shot or auto)");
    assert_refused("[rule a]\ncodec = int8\ngather_codec = fp16\ndtype = bfloat16\n",
                   "policy.ini:1: rule 'a': codec 'fp16' cannot carry dtype 'bfloat16'");
    assert_refused("[rule a]\nalgorithm = cast\ncodec = fp16\ngather_codec = bf16\n",
                   "policy.ini:1: rule 'a': algorithm 'cast' has no gather_codec (use two_shot or "
                   "auto)");
    assert_refused("[rule a]\nalgorithm = cast\ncodec = int8\n",
                   "policy.ini:1: rule 'a': algorithm 'cast' needs codec raw, fp32, fp16 or bf16, "
                   "not 'int8' (use two_shot or auto)");
    assert_refused("[rule a]\nnodes = 5-\nranks = 2-4\ncodec = raw\n",
                   "policy.ini:1: rule 'a' can never match: it asks for more nodes than ranks");
    assert_refused("[rule a]\ncodec = none\nverify = 2\nerror_feedback = on\n",
                   "policy.ini:1: rule 'a': codec 'none' rounds nothing, error_feedback = on has "
                   "no effect");
    assert_refused(
        "[rule a]\ncodec = bounded\n",
        "policy.ini:1: rule 'a': codec 'bounded' needs abs_error, as in abs_error = 1e-4");
    assert_refused("[rule a]\ncodec = topk\n",
                   "policy.ini:1: rule 'a': codec 'topk' needs error_feedback = on");
    assert_refused("[rule a]\ncodec = int8\nkeep = 4\n",
                   "policy.ini:1: rule 'a': keep needs codec topk");
    assert_refused(
        "[rule a]\ncodec = topk\nerror_feedback = on\nrounding = stochastic\n",
        "policy.ini:1: rule 'a': codec 'topk' is for sums only, and has neither rounding = "
        "stochastic nor max_rel_error");
    assert_refused(
        "[rule a]\ncodec = topk\nerror_feedback = on\ncollective = broadcast\n",
        "policy.ini:1: rule 'a': codec 'topk' is for sums only, and has neither rounding = "
        "stochastic nor max_rel_error");
    assert_refused("[rule a]\ncodec = fp16\nabs_error = 1e-4\n",
                   "policy.ini:1: rule 'a': abs_error needs codec bounded, and beside it raw or "
                   "lossless only");
    assert_refused("[rule a]\ncodec = bounded\nabs_error = 1e-4\ngather_codec = fp16\n",
                   "policy.ini:1: rule 'a': abs_error needs codec bounded, and beside it raw or "
                   "lossless only");
    assert_refused(
        "[rule a]\ncodec = raw\ngather_codec = bounded\n",
        "policy.ini:1: rule 'a': codec 'bounded' needs abs_error, as in abs_error = 1e-4");
    assert_refused("[rule a]\ncodec = bounded\nabs_error = 1e-4\ndtype = float16\n",
                   "policy.ini:1: rule 'a': codec 'bounded' cannot carry dtype 'float16'");
    assert_refused("[rule a]\ncodec = fp16\nalgorithm = allreduce\nmax_rel_error = 0.1\n",
                   "policy.ini:1: rule 'a': algorithm 'allreduce' has no max_rel_error (use "
                   "two_shot or auto)");
    assert_refused("[rule a]\ncodec = raw\n[rule b]\nop = avg\ncodec = raw\n",
                   "policy.ini:3: rule 'b' can never match: the rules before it take all its calls "
                   "(the first that matches decides)");
}

/* A rule applies only to the collectives that it names; without `collective`, to those that
 * reduce. */
TEST(collectives_apart)
{
    static const char *const good[] = {
        "[rule a]\ncodec = raw\n[rule b]\ncollective = allgather\ncodec = fp16\n",
        "[rule a]\ncollective = reduce\ncodec = raw\n[rule b]\ncodec = fp16\n",
        "[rule a]\ncollective = allgather, allreduce\ncodec = raw\n"
        "[rule b]\ncollective = allgather, reduce\ncodec = raw\n",
        "[rule a]\nlibrary = nccl\ncollective = allgather\ncodec = raw\n"
        "[rule b]\ncollective = allgather\ncodec = raw\n",
        "[rule a]\nlibrary = mpi\ncollective = allgather, reduce\ncodec = raw\n"
        "[rule b]\nlibrary = nccl\ncollective = allgather, reduce\ncodec = raw\n",
    };
    static const char *const taken[] = {
        "[rule a]\ncollective = allreduce, reduce\ncodec = raw\n"
        "[rule b]\ncollective = reduce\ncodec = raw\n",
        "[rule a]\ncodec = raw\n[rule b]\ncollective = allreduce, reduce_scatter\ncodec = raw\n",
        /* Rule a leaves only calls that are never compressed: reduces of NCCL and gloo in the next
         * policy, MPI's averages in the last one. */
        "[rule a]\nlibrary = mpi\ncodec = raw\n[rule b]\ncollective = reduce\ncodec = raw\n",
        "[rule a]\nlibrary = mpi\nop = sum\ncodec = raw\n[rule b]\nlibrary = mpi\ncodec = raw\n",
    };
    static const char *const no_calls[] = {
        "[rule b]\nlibrary = nccl\ncollective = reduce\ncodec = none\n",
        "[rule b]\nlibrary = gloo\ncollective = reduce, reduce_scatter\ncodec = raw\n",
        "[rule b]\nlibrary = mpi, gloo\nop = avg\ncodec = raw\n",
        "[rule b]\ncollective = allgather\nop = avg\ncodec = raw\n",
    };
    char message[CSHIM_MESSAGE_MAX];
    for (size_t i = 0; i < COUNT_OF(good); i++)
        cshim_policy_free(parse(good[i]));
    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        assert_null(cshim_policy_parse(taken[i], strlen(taken[i]), "p", message));
        assert_non_null(strstr(message, "rule 'b' can never match: the rules before it take all"));
    }
    for (size_t i = 0; i < COUNT_OF(no_calls); i++) {
        assert_null(cshim_policy_parse(no_calls[i], strlen(no_calls[i]), "p", message));
        assert_non_null(strstr(message, "rule 'b' can never match: there are no such calls"));
    }
    struct cshim_policy *policy = parse("[rule a]\ncodec = raw\n");
    assert_int_equal(policy->rules[0].collectives,
                     (1u << CSHIM_ALLREDUCE) | (1u << CSHIM_REDUCE_SCATTER) | (1u << CSHIM_REDUCE));
    cshim_policy_free(policy);
}

TEST(cast_takes_wide_codecs)
{
    static const char *const codecs[] = {"none", "raw", "fp32", "fp16", "bf16"};
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        char text[128];
        snprintf(text, sizeof text, "[rule a]\nalgorithm = cast\ncodec = %s\n", codecs[i]);
        cshim_policy_free(parse(text));
    }
}

TEST(bytes_that_are_no_text)
{
    char message[CSHIM_MESSAGE_MAX], line[512] = "[compshim]\nreport = a.";
    assert_null(cshim_policy_parse("[compshim]\nlog = wa\0rn\n", 23, "p", message));
    assert_string_equal(message, "p:2: a NUL byte: this is not a text file");
    assert_null(cshim_policy_parse(line, sizeof line, "p", message)); /* within a long line */
    assert_string_equal(message, "p:2: a NUL byte: this is not a text file");
    memset(line + 22, 'x', sizeof line - 22);
    assert_null(cshim_policy_parse(line, 11 + 199, "p", message));
    assert_string_equal(message, "p:2: the line is longer than 198 characters");
    /* The longest line allowed: "report = " has 9 characters. */
    struct cshim_policy *policy = cshim_policy_parse(line, 11 + 198, "p", message);
    assert_non_null(policy);
    assert_int_equal(strlen(policy->report), 198 - 9);
    cshim_policy_free(policy);
    /* A comment does not count toward the line's length. */
    line[11 + 11] = ' ';
    line[11 + 12] = ';';
    policy = cshim_policy_parse(line, sizeof line, "p", message);
    assert_non_null(policy);
    assert_string_equal(policy->report, "a.");
    cshim_policy_free(policy);
}

TEST(long_sources_leave_room_for_the_error)
{
    char source[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    memset(source, 'd', sizeof source);
    memcpy(source + sizeof source - 12, "/policy.ini", 12);
    assert_null(cshim_policy_parse("[compshim]\nlogs = warn\n", 23, source, message));
    assert_non_null(strstr(message, "d/policy.ini:2: unknown key 'logs' (did you mean 'log'?)"));
}

TEST(sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1024", 1024},
        {"7B", 7},
        {"64KiB", 65536},
        {"64 KiB", 65536},
        {"64K", 65536},
        {"1kib", 1024},
        {"64kb", 64000},
        {"2KB", 2000},
        {"25MB", 25000000},
        {"1.50MiB", 1572864},
        {"0.001KB", 1},
        {"1GB", 1000000000},
        {"4GiB", UINT64_C(1) << 32},
        {"9223372036854775808", UINT64_C(1) << 63},
    };
    static const char *const bad[] = {"",
                                      "KiB",
                                      "-1",
                                      "+1",
                                      "1.KiB",
                                      ".5KiB",
                                      "0.5",
                                      "1.0001KB",
                                      "1TiB",
                                      "1KiBx",
                                      "0x10",
                                      "1 2",
                                      "1e3",
                                      " 1",
                                      "9223372036854775809",
                                      "18446744073709551616",
                                      "8589934592.5GiB",
                                      "9007199254740993KiB"};
    uint64_t bytes;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(cshim_parse_size(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (cshim_parse_size(bad[i], &bytes))
            fail_msg("accepted '%s'", bad[i]);
}

TEST(nearest_names)
{
    static const char *const names[] = {"none", "fp16", "fp8_e4m3", "fp8_e5m2"};
    assert_string_equal(cshim_nearest_name("fp61", names, 4), "fp16");
    assert_string_equal(cshim_nearest_name("fp8_e5m3", names, 4), "fp8_e4m3");
    assert_string_equal(cshim_nearest_name("FP8_E5M2", names, 4), "fp8_e5m2");
    assert_string_equal(cshim_nearest_name("fp8", names, 4), "fp8_e4m3");
    assert_string_equal(cshim_nearest_name("non", names, 4), "none");
    assert_null(cshim_nearest_name("zstd", names, 4));
    assert_null(cshim_nearest_name("", names, 4));
    assert_null(cshim_nearest_name("fp16", names, 0));
}

TEST(names_of_values)
{
    assert_string_equal(cshim_library_name(CSHIM_NCCL), "nccl");
    assert_string_equal(cshim_library_name(CSHIM_GLOO), "gloo");
    assert_string_equal(cshim_collective_name(CSHIM_ALLREDUCE), "allreduce");
    assert_string_equal(cshim_op_name(CSHIM_AVG), "avg");
    assert_string_equal(cshim_op_name(CSHIM_OP_OTHER), "other");
    assert_string_equal(cshim_algorithm_name(CSHIM_ALGORITHM_TWO_SHOT), "two_shot");
    assert_string_equal(cshim_library_name(CSHIM_LIBRARY_COUNT), "?");
    assert_string_equal(cshim_collective_name(CSHIM_COLLECTIVE_COUNT), "?");
    assert_string_equal(cshim_op_name(CSHIM_OP_COUNT), "?");
    assert_string_equal(cshim_algorithm_name(CSHIM_ALGORITHM_COUNT), "?");
}

TEST(lists_of_messages)
{
    char list[16] = "";
    cshim_list_add(list, sizeof list, ", ", "%s", "one");
    cshim_list_add(list, sizeof list, ", ", "rank %d", 2);
    assert_string_equal(list, "one, rank 2");
    cshim_list_add(list, sizeof list, ", ", "%d", 34);
    assert_string_equal(list, "one, rank 2, 34");
    for (int i = 0; i < 2; i++) { /* no room, and not for the separator either */
        cshim_list_add(list, sizeof list, ", ", "%d", 5);
        assert_string_equal(list, "one, rank 2,...");
    }
}

TEST(algorithms_have_older_names)
{
    static const struct {
        const char *word;
        enum cshim_algorithm algorithm;
    } cases[] = {
        {"auto", CSHIM_ALGORITHM_AUTO},          {"cast", CSHIM_ALGORITHM_CAST},
        {"allreduce", CSHIM_ALGORITHM_CAST},     {"one_shot", CSHIM_ALGORITHM_ONE_SHOT},
        {"allgather", CSHIM_ALGORITHM_ONE_SHOT}, {"two_shot", CSHIM_ALGORITHM_TWO_SHOT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        unsigned algorithm;
        char text[128];
        assert_string_equal(cshim_word_find(CSHIM_ALGORITHMS, cases[i].word, &algorithm),
                            cases[i].word);
        assert_int_equal(algorithm, cases[i].algorithm);
        snprintf(text, sizeof text, "[rule a]\nalgorithm = %s\ncodec = raw\n", cases[i].word);
        struct cshim_policy *policy = parse(text);
        assert_int_equal(policy->rules[0].algorithm, cases[i].algorithm);
        cshim_policy_free(policy);
    }
    assert_refused("[rule a]\nalgorithm = castt\n",
                   "policy.ini:2: unknown algorithm 'castt' (did you mean 'cast'?)");
}
