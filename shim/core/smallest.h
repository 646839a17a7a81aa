/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes below which a policy passes every call through as too_small. Jobs may have many such calls,
 * and an engine that knows these sizes need not match rules for them. */
#ifndef CSHIM_SMALLEST_H
#define CSHIM_SMALLEST_H

#include "policy/policy.h"

/* Returns the size in bytes below which every call with elements that differs from `like` only in
 * its size is too_small; 0 if a smaller one has another reason, or if no size is compressed. */
uint64_t cshim_smallest(const struct cshim_policy *policy, const struct cshim_call *like);

/* Returns the least cshim_smallest() over all communicators of two or more ranks, that is, over all
 * numbers of ranks and nodes that the rules distinguish; 0 also if they distinguish too many. */
uint64_t cshim_smallest_anywhere(const struct cshim_policy *policy, const struct cshim_call *like);

#endif
