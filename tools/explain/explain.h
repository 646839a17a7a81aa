/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain: one call, a table of sizes, or a run that was observed. */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include <jansson.h>

#include "shim/core/machine.h"
#include "shim/core/plan.h"
#include "tools/lib/tool.h"

struct explain_options {
    const char *policy, *sizes, *report, *link, *machine;
    const char *library, *collective, *dtype, *op;
    uint64_t size; /* UINT64_MAX: none given */
    uint32_t ranks;
    uint32_t nodes; /* 0: as many as ranks */
    bool json;
};

/* A call, and its plan. */
struct explain_answer {
    const struct cshim_policy *policy;
    struct cshim_call call;
    struct cshim_plan plan;
};

/* Plans the call with this many bytes. It is wrong use if they are no whole elements. */
struct explain_answer explain_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                   uint64_t bytes);

/* Prints the answer as text. */
void explain_print_text(const struct explain_answer *answer);
/* The answer as JSON. */
json_t *explain_json(const struct explain_answer *answer);

/* Explains what the policy would have done to the run of chosen->report. */
void explain_run(const struct explain_options *chosen, const struct cshim_policy *policy,
                 const struct cshim_machine *machine);

#endif
