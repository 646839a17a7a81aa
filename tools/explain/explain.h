/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain: one call, a table of sizes, or a run that was observed. */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include <jansson.h>

#include "shim/core/machine.h"
#include "shim/core/plan.h"
#include "tools/lib/tool.h"

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

/* Questions about a recorded run. */
struct explain_setting {
    const struct cshim_policy *policy;
    const struct cshim_machine *machine; /* NULL: not known */
    const char *link;                    /* the rate of a node's link, or NULL */
    uint32_t nodes;                      /* that the ranks are on; 0: as recorded */
};

/* Explains what the policy would have done to the run of a report. */
void explain_run(const char *report, const struct explain_setting *setting, bool json);

#endif
