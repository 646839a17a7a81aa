/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain: one call, a table of sizes, or a recorded run. */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include <jansson.h>

#include "shim/core/learned.h"
#include "shim/core/plan.h"
#include "tools/lib/tool.h"

/* A call and its plan, before the job has measured anything. */
struct explain_answer {
    const struct cshim_policy *policy;
    struct cshim_call call;
    struct cshim_plan plan;
    const struct cshim_learned_choice
        *learned; /* choice of an earlier job, from --machine; or NULL */
};

/* Plans the call with `bytes` bytes. Exits with TOOL_USAGE if these are not whole elements. */
struct explain_answer explain_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                   uint64_t bytes);

/* Link of each node; without a rate nothing is known about it. */
struct explain_link {
    const char *rate; /* as the user wrote it, or NULL */
    double bytes_per_second;
};

/* Reads the value of --link, or NULL. Exits with TOOL_USAGE if it is no rate. */
struct explain_link explain_link(const char *rate);

/* Lower bounds of the seconds that the busiest node's link needs; 0 if nothing crosses it, or
 * without a rate. */
struct explain_limit {
    double native; /* seconds of the native call */
    double chosen; /* seconds of the plan, or of the native call if the plan does not compress */
};
#define EXPLAIN_LIMIT "a limit of the link, no prediction: a job measures what its calls take"
#define EXPLAIN_NO_LINK "calls within one node cross none (--nodes N)"
struct explain_limit explain_limit(const struct explain_answer *answer,
                                   const struct explain_link *link);
/* Returns the limits as JSON; null if nothing crosses the link, or without a rate. */
json_t *explain_limit_json(const struct explain_limit *limit, const struct explain_link *link);

/* Prints the answer as text. */
void explain_print_text(const struct explain_answer *answer, const struct explain_link *link);
/* Prints the operations of rank 0 for the first segment of a call, or why none are shown. */
void explain_print_operations(const struct explain_answer *answer);
/* Returns the answer as JSON. */
json_t *explain_json(const struct explain_answer *answer, const struct explain_link *link);

/* Settings for a recorded run. */
struct explain_setting {
    const struct cshim_policy *policy;
    struct explain_link link;
    uint32_t nodes; /* number of nodes to spread the ranks over; 0: as recorded */
};

/* Shows what the policy would have done to the run of a report. */
void explain_run(const char *report, const struct explain_setting *setting, bool json);

#endif
