/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/passed.h"

/* Tries the smallest size, and those at which the range of sizes of a rule begins or ends, because
 * the decision changes only there. */
struct cshim_passed cshim_passed_like(const struct cshim_policy *policy,
                                      const struct cshim_call *like)
{
    struct cshim_call call = *like;
    const struct cshim_rule *decided;
    call.bytes = 0;
    struct cshim_passed passed = {UINT64_MAX, cshim_plan_reason(policy, &call, 1, &decided)};
    if (passed.reason == CSHIM_REASON_COMPRESS)
        passed.below = 0;
    for (size_t i = 0; i < 2 * policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i / 2];
        call.bytes = i % 2 == 0 ? rule->min_size : rule->max_size + 1;
        if (call.bytes < passed.below &&
            cshim_plan_reason(policy, &call, 1, &decided) != passed.reason)
            passed.below = call.bytes;
    }
    return passed;
}

/* Returns the limit that holds for the calls of `a` and for those of `b`. */
static struct cshim_passed passed_both(struct cshim_passed a, struct cshim_passed b)
{
    const struct cshim_passed smaller = a.below < b.below ? a : b;
    return a.reason == b.reason ? smaller : (struct cshim_passed){0, CSHIM_REASON_COMPRESS};
}

/* Numbers of ranks, or of nodes, at which the decision of the rules may change; the first is the
 * minimum. */
struct thresholds {
    size_t count;
    uint32_t from[8];
};

/* Adds a threshold, unless it is there already or not above the minimum. Returns false if there are
 * too many. */
static bool add_limit(struct thresholds *thresholds, uint32_t from)
{
    for (size_t i = 0; i < thresholds->count; i++)
        if (from <= thresholds->from[0] || from == thresholds->from[i])
            return true;
    if (thresholds->count == sizeof thresholds->from / sizeof *thresholds->from)
        return false;
    thresholds->from[thresholds->count++] = from;
    return true;
}

struct cshim_passed cshim_passed_anywhere(const struct cshim_policy *policy,
                                          const struct cshim_call *like)
{
    struct thresholds ranks = {1, {2}}, nodes = {1, {1}};
    struct cshim_call call = *like;
    struct cshim_passed passed = {0, CSHIM_REASON_COMPRESS};
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if (!add_limit(&ranks, rule->min_ranks) || !add_limit(&ranks, rule->max_ranks + 1) ||
            !add_limit(&nodes, rule->min_nodes) || !add_limit(&nodes, rule->max_nodes + 1))
            return passed;
    }
    for (size_t i = 0; i < ranks.count * nodes.count; i++) {
        call.nodes = nodes.from[i % nodes.count];
        call.ranks = ranks.from[i / nodes.count];
        if (call.ranks < call.nodes)
            call.ranks = call.nodes;
        const struct cshim_passed here = cshim_passed_like(policy, &call);
        passed = i == 0 ? here : passed_both(passed, here);
    }
    return passed;
}
