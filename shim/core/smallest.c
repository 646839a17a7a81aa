/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/smallest.h"

#include "shim/core/plan.h"

/* Tries each rule's size limits only, because the decision changes only there. */
uint64_t cshim_smallest(const struct cshim_policy *policy, const struct cshim_call *like)
{
    struct cshim_call call = *like;
    const struct cshim_rule *decided;
    call.bytes = 0;
    const uint64_t smallest = cshim_plan_compressed_above(policy, &call);
    if (smallest == UINT64_MAX ||
        cshim_plan_reason(policy, &call, 1, &decided) != CSHIM_REASON_TOO_SMALL)
        return 0;
    for (size_t i = 0; i < 2 * policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i / 2];
        call.bytes = i % 2 == 0 ? rule->min_size : rule->max_size + 1;
        if (call.bytes < smallest &&
            cshim_plan_reason(policy, &call, 1, &decided) != CSHIM_REASON_TOO_SMALL)
            return 0;
    }
    return smallest;
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

uint64_t cshim_smallest_anywhere(const struct cshim_policy *policy, const struct cshim_call *like)
{
    struct thresholds ranks = {1, {2}}, nodes = {1, {1}};
    struct cshim_call call = *like;
    uint64_t smallest = UINT64_MAX;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if (!add_limit(&ranks, rule->min_ranks) || !add_limit(&ranks, rule->max_ranks + 1) ||
            !add_limit(&nodes, rule->min_nodes) || !add_limit(&nodes, rule->max_nodes + 1))
            return 0;
    }
    for (size_t i = 0; i < ranks.count * nodes.count && smallest > 0; i++) {
        call.nodes = nodes.from[i % nodes.count];
        call.ranks = ranks.from[i / nodes.count];
        if (call.ranks < call.nodes)
            call.ranks = call.nodes;
        const uint64_t here = cshim_smallest(policy, &call);
        smallest = here < smallest ? here : smallest;
    }
    return smallest;
}
