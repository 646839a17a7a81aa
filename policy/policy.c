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

/* Compares the type first: calls that no rule matches, such as those of float64 under the built-in
 * policy, mostly differ in it. */
bool cshim_rule_matches_but_size(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return in_mask(rule->dtypes, call->dtype) && in_mask(rule->libraries, call->library) &&
           in_mask(rule->collectives, call->collective) && in_mask(rule->ops, call->op) &&
           call->ranks >= rule->min_ranks && call->ranks <= rule->max_ranks &&
           (call->nodes == 0 || (call->nodes >= rule->min_nodes && call->nodes <= rule->max_nodes));
}

bool cshim_rule_matches(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return cshim_rule_matches_but_size(rule, call) && call->bytes >= rule->min_size &&
           call->bytes <= rule->max_size;
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

static bool rule_names(const struct cshim_rule *rule, enum cshim_library library,
                       enum cshim_collective collective)
{
    return (rule->libraries >> library & 1) != 0 && (rule->collectives >> collective & 1) != 0;
}

bool cshim_policy_names(const struct cshim_policy *policy, enum cshim_library library,
                        enum cshim_collective collective)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (rule_names(&policy->rules[i], library, collective))
            return true;
    return false;
}

bool cshim_policy_compresses(const struct cshim_policy *policy, enum cshim_library library,
                             enum cshim_collective collective, uint64_t bytes)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (rule_names(&policy->rules[i], library, collective) &&
            policy->rules[i].codec != CSHIM_CODEC_NONE && bytes >= policy->rules[i].min_size)
            return true;
    return false;
}
