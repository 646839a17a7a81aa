/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain --sizes: one line for each size of a buffer. */
#include <inttypes.h>

#include "tools/explain/explain.h"
#include "tools/lib/tool.h"

#define SIZES_MAX 1000

static void add_answer(struct tool_table *table, const struct explain_answer *answer)
{
    const struct cshim_plan *plan = &answer->plan;
    char *cells[9] = {tool_bytes((double)answer->call.bytes),
                      tool_copy(plan->rule != NULL ? plan->rule->name : "-")};
    if (plan->reason == CSHIM_REASON_COMPRESS) {
        cells[2] = tool_copy(cshim_codec_name(plan->codec));
        cells[3] = tool_copy(cshim_algorithm_name(plan->algorithm));
        cells[4] = tool_format("%" PRIu64, plan->segments);
        cells[5] = tool_bytes((double)plan->bytes_native);
        cells[6] = tool_bytes((double)plan->bytes_wire);
        cells[7] = tool_format("%.2f", (double)plan->bytes_native / (double)plan->bytes_wire);
        cells[8] = tool_format("%.1e", plan->expected_error);
    } else {
        cells[2] = tool_format("passed on: %s", explain_reason(plan));
    }
    tool_table_add(table, cells);
}

void explain_sizes(const struct explain_options *chosen, const struct cshim_policy *policy,
                   const struct cshim_call *call)
{
    static const char *const headings[] = {"size",   "rule", "codec", "algorithm", "segments",
                                           "native", "wire", "ratio", "error"};
    static uint64_t sizes[SIZES_MAX];
    const size_t count = tool_parse_sizes(chosen->command, chosen->sizes, sizes, SIZES_MAX);
    struct tool_table table = {.columns = 9, .numeric_from = 4, .headings = 1};
    json_t *answers = json_array();
    tool_table_copy(&table, headings);
    for (size_t i = 0; i < count; i++) {
        const struct explain_answer answer = explain_call(chosen, policy, call, sizes[i]);
        add_answer(&table, &answer);
        json_array_append_new(answers, explain_json(&answer));
    }
    if (chosen->json) {
        explain_print_json(answers);
    } else {
        printf("%s %s, %s, %s, ranks %u, nodes %u, policy %s\n", cshim_library_name(call->library),
               cshim_collective_name(call->collective), cshim_dtype_name(call->dtype),
               cshim_op_name(call->op), call->ranks, call->nodes, policy->source);
        tool_table_print(&table, stdout);
    }
}
