/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a rule as a whole: that its keys fit together, and that some call can ever reach it. */
#include "policy/library.h"
#include "policy/parser.h"

static bool check_dtypes(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    if (!cshim_has_key(parser, offsetof(struct cshim_rule, dtypes)) ||
        rule->codec == CSHIM_CODEC_NONE)
        return true;
    for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
        for (unsigned i = 0; i < 2 && (rule->dtypes >> dtype & 1) != 0; i++) {
            const enum cshim_codec_id codec = i == 0 ? rule->codec : rule->gather_codec;
            if (codec != CSHIM_CODEC_NONE && !cshim_codec_carries(codec, (enum cshim_dtype)dtype))
                return cshim_parser_fail(parser, "rule '%s': codec '%s' cannot carry dtype '%s'",
                                         rule->name, cshim_codec_name(codec),
                                         cshim_dtype_name((enum cshim_dtype)dtype));
        }
    return true;
}

/* Checks the codec of the algorithm cast, which converts to float32, float16 or bfloat16 and lets
 * the library add the converted elements. Rejects codecs whose codes have 8 bits or less, or vary
 * in length. */
static bool check_algorithm(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const struct cshim_codec_info *info = cshim_codec_info(rule->codec);
    if (rule->algorithm != CSHIM_ALGORITHM_CAST || info == NULL || rule->codec == CSHIM_CODEC_RAW ||
        info->element_bits > 8)
        return true;
    return cshim_parser_fail(parser,
                             "rule '%s': algorithm '%s' needs codec raw, fp32, fp16 or bf16, "
                             "not '%s' (use two_shot or auto)",
                             rule->name, parser->algorithm, cshim_codec_name(rule->codec));
}

/* Checks that the rule's algorithm and codec can have its options. The algorithm cast uses the
 * library's own all-reduce, which cannot use residuals, random bits, an error that ranks agree on,
 * or another codec for the sums. Rules with codec = none have no use for these options. */
static bool check_options(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const char *option = NULL;
    if (rule->max_rel_error > 0)
        option = "max_rel_error";
    if (rule->stochastic)
        option = "rounding = stochastic";
    if (rule->error_feedback)
        option = "error_feedback = on";
    if (rule->gather_codec != CSHIM_CODEC_NONE)
        option = "gather_codec";
    if (option == NULL)
        return true;
    if (rule->algorithm == CSHIM_ALGORITHM_CAST)
        return cshim_parser_fail(parser,
                                 "rule '%s': algorithm '%s' has no %s (use two_shot or auto)",
                                 rule->name, parser->algorithm, option);
    if (rule->codec == CSHIM_CODEC_NONE)
        return cshim_parser_fail(parser, "rule '%s': codec 'none' rounds nothing, %s has no effect",
                                 rule->name, option);
    return true;
}

/* Checks that codec bounded and abs_error are used together, without another codec that rounds: the
 * bound would not hold. */
static bool check_bound(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const bool is_bounded =
        rule->codec == CSHIM_CODEC_BOUNDED || rule->gather_codec == CSHIM_CODEC_BOUNDED;
    if (is_bounded && rule->abs_error <= 0)
        return cshim_parser_fail(
            parser, "rule '%s': codec 'bounded' needs abs_error, as in abs_error = 1e-4",
            rule->name);
    if (rule->abs_error <= 0 ||
        (is_bounded && cshim_codec_is_exact(rule->codec) &&
         (rule->gather_codec == CSHIM_CODEC_NONE || cshim_codec_is_exact(rule->gather_codec))))
        return true;
    return cshim_parser_fail(
        parser, "rule '%s': abs_error needs codec bounded, and beside it raw or lossless only",
        rule->name);
}

/* Checks codec topk and its option keep. topk stores the elements that it does not send in the
 * residual, so it needs error feedback, and supports only reductions, without stochastic rounding
 * and max_rel_error. */
static bool check_few(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const bool has_few = rule->codec == CSHIM_CODEC_TOPK || rule->gather_codec == CSHIM_CODEC_TOPK;
    if (!has_few && cshim_has_key(parser, offsetof(struct cshim_rule, keep)))
        return cshim_parser_fail(parser, "rule '%s': keep needs codec topk", rule->name);
    if (has_few && !rule->error_feedback)
        return cshim_parser_fail(parser, "rule '%s': codec 'topk' needs error_feedback = on",
                                 rule->name);
    if (has_few &&
        (rule->stochastic || rule->max_rel_error > 0 || (rule->collectives & CSHIM_MOVES) != 0))
        return cshim_parser_fail(parser,
                                 "rule '%s': codec 'topk' is for sums only, and has neither "
                                 "rounding = stochastic nor max_rel_error",
                                 rule->name);
    return true;
}

/* Returns the smallest number of ranks of the rule's calls: at least one rank for each node. */
static uint32_t fewest_ranks(const struct cshim_rule *rule)
{
    return rule->min_nodes > rule->min_ranks ? rule->min_nodes : rule->min_ranks;
}

/* Changes `call`, which the earlier rule `taker` matches, to the next candidate within the limits
 * of `rule`, like an odometer: raises the nodes; after the last number of nodes resets the nodes
 * and raises the ranks; after the last number of ranks resets both and raises the size. Tries only
 * values just above a maximum of an earlier rule, because only there an earlier rule stops
 * matching. Returns false after the last candidate. */
static bool advance(const struct cshim_policy *earlier, const struct cshim_rule *rule,
                    const struct cshim_rule *taker, struct cshim_call *call)
{
    uint32_t ranks = rule->max_ranks;
    uint64_t bytes = rule->max_size;
    if (taker->max_nodes < rule->max_nodes && taker->max_nodes < call->ranks) {
        call->nodes = taker->max_nodes + 1;
        return true;
    }
    for (size_t i = 0; i < earlier->rule_count; i++) {
        const struct cshim_rule *limit = &earlier->rules[i];
        if (limit->max_ranks >= call->ranks && limit->max_ranks < ranks)
            ranks = limit->max_ranks;
        if (limit->max_nodes >= call->ranks && limit->max_nodes < ranks)
            ranks = limit->max_nodes;
        if (limit->max_size >= call->bytes && limit->max_size < bytes)
            bytes = limit->max_size;
    }
    call->nodes = rule->min_nodes;
    if (ranks < rule->max_ranks) {
        call->ranks = ranks + 1;
        return true;
    }
    call->ranks = fewest_ranks(rule);
    call->bytes = bytes + 1;
    return bytes < rule->max_size;
}

/* Returns true if the earlier rules match the call for every size, number of ranks and number of
 * nodes that `rule` allows. */
static bool is_covered(const struct cshim_policy *earlier, const struct cshim_rule *rule,
                       struct cshim_call call)
{
    const struct cshim_rule *taker;
    call.ranks = fewest_ranks(rule);
    while ((taker = cshim_policy_match(earlier, &call)) != NULL)
        if (!advance(earlier, rule, taker, &call))
            return true;
    return false;
}

/* Returns true if calls of this library, collective and operation can be compressed at all. A
 * collective that adds nothing counts as a sum. */
static bool can_occur(const struct cshim_call *call)
{
    return cshim_library_compresses(call->library, call->collective) &&
           cshim_library_makes(call->library, call->collective, call->op);
}

/* Calls that a rule gets: some; none, because earlier rules match all of its calls; none, because
 * it matches no calls that can be compressed. */
enum reach { REACH_SOME, REACH_TAKEN, REACH_NO_SUCH_CALL };

static enum reach find_reach(const struct cshim_policy *policy, const struct cshim_rule *rule)
{
    const struct cshim_policy earlier = {.rule_count = cshim_rule_index(policy, rule),
                                         .rules = policy->rules};
    enum reach reach = REACH_NO_SUCH_CALL;
    struct cshim_call call = {
        .bytes = rule->min_size, .ranks = rule->min_ranks, .nodes = rule->min_nodes};
    for (call.library = 0; call.library < CSHIM_LIBRARY_COUNT; call.library++)
        for (call.collective = 0; call.collective < CSHIM_COLLECTIVE_COUNT; call.collective++)
            for (call.dtype = 0; call.dtype < CSHIM_DTYPE_COUNT; call.dtype++)
                for (call.op = 0; call.op < CSHIM_OP_COUNT; call.op++) {
                    if (!cshim_rule_matches(rule, &call) || !can_occur(&call))
                        continue;
                    if (!is_covered(&earlier, rule, call))
                        return REACH_SOME;
                    reach = REACH_TAKEN;
                }
    return reach;
}

static bool check(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    if (!cshim_has_key(parser, offsetof(struct cshim_rule, codec)))
        return cshim_parser_fail(
            parser, "rule '%s' has no codec (add 'codec = ...', or 'codec = none')", rule->name);
    if (!check_dtypes(parser, rule) || !check_algorithm(parser, rule) ||
        !check_options(parser, rule) || !check_bound(parser, rule) || !check_few(parser, rule))
        return false;
    if (rule->min_nodes > rule->max_ranks)
        return cshim_parser_fail(
            parser, "rule '%s' can never match: it asks for more nodes than ranks", rule->name);
    if (parser->failed) /* earlier rules may be incomplete */
        return true;
    const enum reach reach = find_reach(parser->policy, rule);
    if (reach == REACH_NO_SUCH_CALL)
        return cshim_parser_fail(
            parser,
            "rule '%s' can never match: there are no such calls "
            "(avg is NCCL's only, and for sums; reduce is MPI's only; gloo has no reduce_scatter)",
            rule->name);
    if (reach == REACH_TAKEN)
        return cshim_parser_fail(
            parser,
            "rule '%s' can never match: the rules before it take all its calls "
            "(the first that matches decides)",
            rule->name);
    return true;
}

bool cshim_check_rule(struct cshim_parser *parser)
{
    const struct cshim_rule *rule = &parser->policy->rules[parser->policy->rule_count - 1];
    const unsigned line = parser->line;
    parser->line = rule->line;
    const bool is_good = check(parser, rule);
    parser->line = line;
    return is_good;
}
