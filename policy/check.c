/* SPDX-License-Identifier: Apache-2.0 */
/* What is checked of a rule as a whole: that it can be carried out, and that it can ever match. */
#include "policy/parser.h"

static bool check_dtypes(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    if (!cshim_has_key(parser, offsetof(struct cshim_rule, dtypes)) ||
        rule->codec == CSHIM_CODEC_NONE)
        return true;
    for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
        if ((rule->dtypes >> dtype & 1) != 0 &&
            !cshim_codec_carries(rule->codec, (enum cshim_dtype)dtype))
            return cshim_parser_fail(
                parser, rule->line, "rule '%s': codec '%s' cannot carry dtype '%s'", rule->name,
                cshim_codec_name(rule->codec), cshim_dtype_name((enum cshim_dtype)dtype));
    return true;
}

/* The library's own all-reduce adds in the narrowed type: below 16 bits, and with a scale for every
 * block, there is none to add in. */
static bool check_algorithm(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const struct cshim_codec_info *info = cshim_codec_info(rule->codec);
    if (rule->algorithm != CSHIM_ALGORITHM_CAST || info == NULL || info->element_bits == 0 ||
        info->element_bits > 8)
        return true;
    return cshim_parser_fail(parser, rule->line,
                             "rule '%s': algorithm '%s' needs codec raw, fp32, fp16 or bf16, "
                             "not '%s' (use two_shot or auto)",
                             rule->name, parser->algorithm, cshim_codec_name(rule->codec));
}

/* The library's own all-reduce has no place for a residual, for random bits or for the error that
 * ranks agree on; and what is passed on is not rounded. */
static bool check_options(struct cshim_parser *parser, const struct cshim_rule *rule)
{
    const char *option = NULL;
    if (rule->max_rel_error > 0)
        option = "max_rel_error";
    if (rule->stochastic)
        option = "rounding = stochastic";
    if (rule->error_feedback)
        option = "error_feedback = on";
    if (option == NULL)
        return true;
    if (rule->algorithm == CSHIM_ALGORITHM_CAST)
        return cshim_parser_fail(parser, rule->line,
                                 "rule '%s': algorithm '%s' has no %s (use two_shot or auto)",
                                 rule->name, parser->algorithm, option);
    if (rule->codec == CSHIM_CODEC_NONE)
        return cshim_parser_fail(parser, rule->line,
                                 "rule '%s': codec 'none' rounds nothing, %s has no effect",
                                 rule->name, option);
    return true;
}

/* A call's facts as one point each: the lists' bits, and a place on the three scales. */
struct point {
    uint32_t library, collective, dtype, op;
    uint64_t size;
    uint64_t ranks; /* these two wider than a rule's, to step past its end */
    uint64_t nodes;
};

static bool rule_holds(const struct cshim_rule *rule, const struct point *point)
{
    return (rule->libraries & point->library) != 0 &&
           (rule->collectives & point->collective) != 0 && (rule->dtypes & point->dtype) != 0 &&
           (rule->ops & point->op) != 0 && point->size >= rule->min_size &&
           point->size <= rule->max_size && point->ranks >= rule->min_ranks &&
           point->ranks <= rule->max_ranks && point->nodes >= rule->min_nodes &&
           point->nodes <= rule->max_nodes;
}

/* Whether the earlier rules take every number of nodes of `rule` at this size, these ranks and
 * bits. Ranks fill as many nodes as there are ranks, at most. */
static bool nodes_covered(const struct cshim_policy *policy, const struct cshim_rule *rule,
                          struct point point)
{
    const struct cshim_rule *earlier = policy->rules;
    point.nodes = rule->min_nodes;
    while (point.nodes <= rule->max_nodes && point.nodes <= point.ranks) {
        while (earlier < rule && !rule_holds(earlier, &point))
            earlier++;
        if (earlier == rule)
            return false;
        point.nodes = (uint64_t)earlier->max_nodes + 1;
        earlier = policy->rules;
    }
    return true;
}

/* The same for every number of ranks too. If the earlier rules leave a point free, they leave one
 * free whose ranks are the rule's fewest or as many as its fewest nodes, or follow the end of an
 * earlier rule or the nodes it covers. */
static bool ranks_covered(const struct cshim_policy *policy, const struct cshim_rule *rule,
                          struct point point)
{
    const uint64_t fewest = rule->min_nodes > rule->min_ranks ? rule->min_nodes : rule->min_ranks;
    point.ranks = fewest;
    if (fewest <= rule->max_ranks && !nodes_covered(policy, rule, point))
        return false;
    for (const struct cshim_rule *earlier = policy->rules; earlier < rule; earlier++) {
        const uint64_t next[] = {(uint64_t)earlier->max_ranks + 1,
                                 (uint64_t)earlier->max_nodes + 1};
        for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
            point.ranks = next[i];
            if (next[i] > fewest && next[i] <= rule->max_ranks &&
                !nodes_covered(policy, rule, point))
                return false;
        }
    }
    return true;
}

/* Whether the earlier rules take every size, number of ranks and of nodes of `rule` at these bits.
 * If they leave a point free, they leave one free whose size is the rule's smallest, or follows the
 * end of an earlier rule. */
static bool sizes_covered(const struct cshim_policy *policy, const struct cshim_rule *rule,
                          struct point point)
{
    point.size = rule->min_size;
    if (!ranks_covered(policy, rule, point))
        return false;
    for (const struct cshim_rule *earlier = policy->rules; earlier < rule; earlier++) {
        if (earlier->max_size < rule->min_size || earlier->max_size >= rule->max_size)
            continue;
        point.size = earlier->max_size + 1;
        if (!ranks_covered(policy, rule, point))
            return false;
    }
    return true;
}

/* Whether there are such calls: NCCL alone has an average and an all-gather that is compressed,
 * which adds nothing and counts as a sum; of a reduce only MPI's is. */
static bool can_occur(const struct point *point)
{
    const bool is_gather = point->collective == 1u << CSHIM_ALLGATHER;
    if (point->library == 1u << CSHIM_MPI)
        return point->op == 1u << CSHIM_SUM && !is_gather;
    return point->collective != 1u << CSHIM_REDUCE && (point->op == 1u << CSHIM_SUM || !is_gather);
}

/* What is left of a rule's calls by those before it, and without them. */
enum reach { REACH_SOME, REACH_TAKEN, REACH_NO_SUCH_CALL };

/* Each choice from the rule's lists is tried. */
static enum reach find_reach(const struct cshim_policy *policy, const struct cshim_rule *rule)
{
    enum reach reach = REACH_NO_SUCH_CALL;
    for (uint32_t library = 1; library >> CSHIM_LIBRARY_COUNT == 0; library <<= 1)
        for (uint32_t collective = 1; collective >> CSHIM_COLLECTIVE_COUNT == 0; collective <<= 1)
            for (uint32_t dtype = 1; dtype >> CSHIM_DTYPE_COUNT == 0; dtype <<= 1)
                for (uint32_t op = 1; op >> CSHIM_OP_COUNT == 0; op <<= 1) {
                    struct point point = {library,        collective,      dtype,          op,
                                          rule->min_size, rule->min_ranks, rule->min_nodes};
                    if (!rule_holds(rule, &point) || !can_occur(&point))
                        continue;
                    if (!sizes_covered(policy, rule, point))
                        return REACH_SOME;
                    reach = REACH_TAKEN;
                }
    return reach;
}

bool cshim_check_rule(struct cshim_parser *parser)
{
    const struct cshim_policy *policy = parser->policy;
    const struct cshim_rule *rule = &policy->rules[policy->rule_count - 1];
    if (!cshim_has_key(parser, offsetof(struct cshim_rule, codec)))
        return cshim_parser_fail(parser, rule->line,
                                 "rule '%s' has no codec (add 'codec = ...', or 'codec = none')",
                                 rule->name);
    if (!check_dtypes(parser, rule) || !check_algorithm(parser, rule) ||
        !check_options(parser, rule))
        return false;
    if (rule->min_nodes > rule->max_ranks)
        return cshim_parser_fail(parser, rule->line,
                                 "rule '%s' can never match: it asks for more nodes than ranks",
                                 rule->name);
    const enum reach reach = find_reach(policy, rule);
    if (reach == REACH_NO_SUCH_CALL)
        return cshim_parser_fail(parser, rule->line,
                                 "rule '%s' can never match: there are no such calls "
                                 "(avg and allgather are NCCL's only, not together, and reduce "
                                 "MPI's only)",
                                 rule->name);
    if (reach == REACH_TAKEN)
        return cshim_parser_fail(
            parser, rule->line,
            "rule '%s' can never match: the rules before it take all its calls "
            "(the first that matches decides)",
            rule->name);
    return true;
}
