/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes below which a policy passes every call through for one reason. Jobs may have many such
 * calls, and an engine that knows these sizes need not match rules for them. */
#ifndef CSHIM_PASSED_H
#define CSHIM_PASSED_H

#include "shim/core/plan.h"

/* Calls of fewer than `below` bytes are passed through for `reason`. 0: no such size is known. */
struct cshim_passed {
    uint64_t below;
    enum cshim_reason reason;
};

/* Returns this limit for calls that have elements and differ from `like` only in their size. */
struct cshim_passed cshim_passed_like(const struct cshim_policy *policy,
                                      const struct cshim_call *like);

/* Returns the limit that holds for these calls on every communicator of two or more ranks. Compares
 * all numbers of ranks and nodes that the rules distinguish; `below` is 0 if there are too many. */
struct cshim_passed cshim_passed_anywhere(const struct cshim_policy *policy,
                                          const struct cshim_call *like);

#endif
