/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rule for a call, and frees policies. */
#include "policy/policy.h"

#include <stdlib.h>

/* Returns true if a mask contains a value. CSHIM_DTYPE_OTHER and CSHIM_OP_OTHER are above 31, so no
 * mask contains them. */
static bool in_mask(uint32_t mask, unsigned value)
{
    return value < 32 && (mask >> value & 1) != 0;
}

bool cshim_rule_matches_but_size(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return in_mask(rule->libraries, call->library) &&
           in_mask(rule->collectives, call->collective) && in_mask(rule->dtypes, call->dtype) &&
           in_mask(rule->ops, call->op) && call->ranks >= rule->min_ranks &&
           call->ranks <= rule->max_ranks &&
           (call->nodes == 0 || (call->nodes >= rule->min_nodes && call->nodes <= rule->max_nodes));
}

bool cshim_rule_matches(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return call->bytes >= rule->min_size && call->bytes <= rule->max_size &&
           cshim_rule_matches_but_size(rule, call);
}

const struct cshim_rule *cshim_policy_match(const struct cshim_policy *policy,
                                            const struct cshim_call *call)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (cshim_rule_matches(&policy->rules[i], call))
            return &policy->rules[i];
    return NULL;
}

void cshim_policy_free(struct cshim_policy *policy)
{
    if (policy == NULL)
        return;
    free(policy->rules);
    free(policy);
}

bool cshim_policy_names(const struct cshim_policy *policy, enum cshim_library library,
                        enum cshim_collective collective)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        if ((rule->libraries >> library & 1) != 0 && (rule->collectives >> collective & 1) != 0)
            return true;
    }
    return false;
}

uint64_t cshim_policy_smallest(const struct cshim_policy *policy, enum cshim_library library,
                               enum cshim_collective collective)
{
    const uint64_t *from = policy->compress_from[library][collective];
    uint64_t smallest = UINT64_MAX;
    for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
        smallest = from[dtype] < smallest ? from[dtype] : smallest;
    return smallest;
}
