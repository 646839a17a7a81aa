/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes below which a policy passes every call through as too_small. Most calls of a job are
 * that small: an engine that knows these sizes need not ask the policy. */
#ifndef CSHIM_SMALLEST_H
#define CSHIM_SMALLEST_H

#include "policy/policy.h"

/* Returns the bytes below which every call like this one, but for its size, is too_small; 0 where
 * some have another reason. */
uint64_t cshim_smallest(const struct cshim_policy *policy, const struct cshim_call *like);

/* Returns the same for all communicators of two ranks or more: the least over all numbers of ranks
 * and nodes that the rules distinguish; 0 also where they distinguish too many. */
uint64_t cshim_smallest_anywhere(const struct cshim_policy *policy, const struct cshim_call *like);

#endif
