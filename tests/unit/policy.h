/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of the unit tests. */
#ifndef UNIT_POLICY_H
#define UNIT_POLICY_H

#include "policy/policy.h"
#include "tests/unit/unit.h"

/* Parses a text that must be correct. */
static inline struct cshim_policy *parse(const char *text)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "policy.ini", message);
    if (policy == NULL)
        fail_msg("refused: %s", message);
    return policy;
}

#endif
