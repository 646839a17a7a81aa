/* SPDX-License-Identifier: Apache-2.0 */
/* Plans one call, and prints the plan as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "shim/core/words.h"
#include "shim/report/classes.h"
#include "tools/explain/explain.h"
#include "tools/lib/tool.h"

struct explain_answer explain_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                   uint64_t bytes)
{
    struct explain_answer answer = {.policy = policy, .call = *call};
    size_t element = cshim_dtype_bytes(call->dtype);
    if (element == 0) /* `other` has no size: its elements are counted as bytes */
        element = 1;
    if (bytes % element != 0)
        tool_misuse("%" PRIu64 " bytes are no whole number of %s (%zu bytes)", bytes,
                    cshim_dtype_name(call->dtype), element);
    answer.call.bytes = bytes;
    answer.plan.reason =
        cshim_plan_reason(policy, &answer.call, bytes / element, &answer.plan.rule);
    if (answer.plan.reason == CSHIM_REASON_COMPRESS)
        answer.plan = cshim_plan_call_by(CSHIM_ALGORITHM_AUTO, answer.plan.rule, &answer.call,
                                         bytes / element);
    return answer;
}

/* Adds a line to the table, which then owns the value. */
static void add_line(struct tool_table *table, const char *label, char *value)
{
    tool_table_add(table, (char *[]){tool_copy(label), value});
}

static char *exact_bytes(uint64_t bytes)
{
    return tool_format("%" PRIu64 " (%s)", bytes, tool_bytes((double)bytes));
}

static void add_call(struct tool_table *table, const struct explain_answer *answer)
{
    const struct cshim_call *call = &answer->call;
    const struct cshim_rule *rule = answer->plan.rule;
    add_line(table, "call",
             tool_format("%s %s of %s bytes, %s, %s, %s on %s", cshim_library_name(call->library),
                         cshim_collective_name(call->collective), exact_bytes(call->bytes),
                         cshim_dtype_name(call->dtype), cshim_op_name(call->op),
                         tool_plural(call->ranks, "rank"), tool_plural(call->nodes, "node")));
    add_line(table, "policy", tool_copy(answer->policy->source));
    add_line(table, "rule",
             rule != NULL
                 ? tool_format("%s (%s:%u)", rule->name, answer->policy->source, rule->line)
                 : tool_copy("none"));
}

static char *bound_text(const struct cshim_codec_info *codec, const struct cshim_plan *plan)
{
    if (plan->step > 0)
        return tool_format(
            "%g in each element, times %s", plan->rule->abs_error,
            tool_plural(cshim_shapes[plan->collective].adds ? plan->ranks : 1, "rank"));
    if (plan->codec == CSHIM_CODEC_TOPK)
        return tool_format("none of one call: elements beyond %u of each %u wait for later calls",
                           plan->rule->keep, CSHIM_GRAIN);
    if (codec->bound_relative == 0 && codec->bound_absolute == 0)
        return tool_copy("0: each quantization is exact");
    if (codec->bound_absolute == 0)
        return tool_format("%.3g |x| per quantization of x", codec->bound_relative);
    return tool_format("%.3g |x| + %.3g max|block of %u| per quantization of x",
                       codec->bound_relative, codec->bound_absolute, codec->block);
}

static void add_plan(struct tool_table *table, const struct cshim_plan *plan)
{
    const struct cshim_codec_info *codec = cshim_codec_info(plan->codec);
    add_line(table, "codec", tool_copy(codec->name));
    if (plan->gather_codec != plan->codec)
        add_line(table, "codec of sums", tool_copy(cshim_codec_name(plan->gather_codec)));
    add_line(table, "algorithm", tool_copy(cshim_algorithm_name(plan->algorithm)));
    add_line(
        table, "segments",
        tool_format("%" PRIu64 " of up to %" PRIu64 " elements", plan->segments, plan->segment));
    add_line(table, "scratch per rank", exact_bytes(plan->scratch_bytes));
    add_line(table, "bytes natively (ring)", exact_bytes(plan->bytes_native));
    add_line(table, "bytes on the wire", exact_bytes(plan->bytes_wire));
    add_line(table, "  per rank, natively", exact_bytes(plan->bytes_native / plan->ranks));
    add_line(table, "  per rank, on the wire", exact_bytes(plan->bytes_wire / plan->ranks));
    add_line(table, "  between nodes", exact_bytes(plan->bytes_network));
    add_line(table, "ratio",
             tool_format("%.3f", (double)plan->bytes_native / (double)plan->bytes_wire));
    if (cshim_codec_is_packed(plan->codec))
        add_line(table,
                 plan->codec == CSHIM_CODEC_TOPK ? "  with keep = 4"
                 : plan->step > 0                ? "  of smooth fields"
                                                 : "  of normal data",
                 tool_format("%.3f: the bytes on the wire are the most there can be",
                             (double)plan->bytes_native / (double)plan->bytes_wire /
                                 cshim_codec_typical_share(plan->codec, plan->dtype)));
    add_line(table, "quantizations", tool_format("%u", plan->quantizations));
    if (plan->step <= 0)
        add_line(
            table, "expected error",
            tool_format("%.2g (relative L2, normally distributed data)", plan->expected_error));
    add_line(table, "error bound", bound_text(codec, plan));
}

static void add_limit(struct tool_table *table, const struct explain_answer *answer,
                      const struct explain_link *link)
{
    const struct explain_limit limit = explain_limit(answer, link);
    if (link->rate == NULL)
        return;
    add_line(table, "link",
             tool_format("%s for each node: %s", link->rate,
                         limit.native > 0 ? EXPLAIN_LIMIT : EXPLAIN_NO_LINK));
    if (limit.native > 0)
        add_line(table, "  natively, at least", tool_seconds(limit.native));
    if (limit.native > 0 && answer->plan.reason == CSHIM_REASON_COMPRESS)
        add_line(table, "  compressed, at least", tool_seconds(limit.chosen));
}

/* Returns the answer to "compressed?". Only all-reduces are measured. */
static const char *compressed_text(const struct explain_answer *answer)
{
    const struct cshim_rule *rule = answer->plan.rule;
    const bool is_measured = rule != NULL && cshim_class_is_for(rule, &answer->call);
    if (answer->plan.reason != CSHIM_REASON_COMPRESS)
        return "no";
    if (rule->worth == CSHIM_WORTH_FORETOLD)
        return is_measured ? "once the job has measured that it gains (see worth)"
                           : "no (see worth)";
    return is_measured ? "yes, until the job measures that it does not gain (see worth)" : "yes";
}

/* Returns an earlier job's choice as text. */
static char *learned_text(const struct cshim_learned_choice *choice)
{
    if (choice->is_native)
        return tool_copy("native (by --machine: with that file nothing is tried)");
    return tool_format("%s by %s (by --machine: with that file nothing is tried)",
                       cshim_codec_name(choice->codec), cshim_algorithm_name(choice->algorithm));
}

/* Returns why a call is passed through. */
static char *reason_text(const struct explain_answer *answer)
{
    const enum cshim_reason reason = answer->plan.reason;
    if (reason == CSHIM_REASON_TOO_SMALL)
        return tool_format("%s: %s: compressed from %s on", cshim_reason_name(reason),
                           cshim_reason_words(reason),
                           exact_bytes(cshim_plan_compressed_above(answer->policy, &answer->call)));
    return tool_format("%s: %s", cshim_reason_name(reason), cshim_reason_words(reason));
}

void explain_print_text(const struct explain_answer *answer, const struct explain_link *link)
{
    struct tool_table table = {.columns = 2, .numeric_from = 2};
    enum cshim_reason reason = answer->plan.reason;
    add_call(&table, answer);
    add_line(&table, "compressed", tool_copy(compressed_text(answer)));
    if (reason == CSHIM_REASON_COMPRESS)
        add_plan(&table, &answer->plan);
    else
        add_line(&table, "reason", reason_text(answer));
    if (answer->learned != NULL)
        add_line(&table, "learned", learned_text(answer->learned));
    add_limit(&table, answer, link);
    tool_table_print(&table, stdout);
}

/* Returns a number of bytes for JSON, at most the largest that it can hold. */
static json_int_t json_bytes(uint64_t bytes)
{
    return bytes < INT64_MAX ? (json_int_t)bytes : INT64_MAX;
}

static json_t *call_json(const struct cshim_call *call)
{
    return json_pack("{ss ss ss ss sI sI sI}", "library", cshim_library_name(call->library),
                     "collective", cshim_collective_name(call->collective), "dtype",
                     cshim_dtype_name(call->dtype), "op", cshim_op_name(call->op), "bytes",
                     json_bytes(call->bytes), "ranks", (json_int_t)call->ranks, "nodes",
                     (json_int_t)call->nodes);
}

static json_t *plan_json(const struct cshim_plan *plan)
{
    const struct cshim_codec_info *codec = cshim_codec_info(plan->codec);
    return json_pack("{ss ss ss sI sI sI sI sI sI sf sI sf sf sf sI}", "codec", codec->name,
                     "gather_codec", cshim_codec_name(plan->gather_codec), "algorithm",
                     cshim_algorithm_name(plan->algorithm), "segments", (json_int_t)plan->segments,
                     "segment_elements", (json_int_t)plan->segment, "scratch_bytes",
                     json_bytes(plan->scratch_bytes), "bytes_native",
                     json_bytes(plan->bytes_native), "bytes_wire", json_bytes(plan->bytes_wire),
                     "bytes_network", json_bytes(plan->bytes_network), "ratio",
                     (double)plan->bytes_native / (double)plan->bytes_wire, "quantizations",
                     (json_int_t)plan->quantizations, "expected_error", plan->expected_error,
                     "bound_relative", codec->bound_relative, "bound_absolute",
                     codec->bound_absolute, "block", (json_int_t)codec->block);
}

/* Returns the choice of an earlier job; NULL if there is none. */
static json_t *learned_json(const struct cshim_learned_choice *choice)
{
    if (choice == NULL)
        return NULL;
    return choice->is_native ? json_pack("{sb}", "native", 1)
                             : json_pack("{sb ss ss}", "native", 0, "algorithm",
                                         cshim_algorithm_name(choice->algorithm), "codec",
                                         cshim_codec_name(choice->codec));
}

/* Writes null for `foretold`, which was a predicted time in earlier versions. */
json_t *explain_json(const struct explain_answer *answer, const struct explain_link *link)
{
    const struct cshim_plan *plan = &answer->plan;
    const struct cshim_rule *rule = plan->rule;
    const struct explain_limit limit = explain_limit(answer, link);
    bool compressed = plan->reason == CSHIM_REASON_COMPRESS;
    return json_pack(
        "{so so* so? sb ss? so? so? so sn}", "call", call_json(&answer->call), "policy",
        json_string(answer->policy->source), "rule",
        rule != NULL ? json_pack("{ss sI ss}", "name", rule->name, "line", (json_int_t)rule->line,
                                 "worth", cshim_words(CSHIM_WORTHS).names[rule->worth])
                     : NULL,
        "compressed", compressed, "reason", compressed ? NULL : cshim_reason_name(plan->reason),
        "plan", compressed ? plan_json(plan) : NULL, "learned", learned_json(answer->learned),
        "limit", explain_limit_json(&limit, link), "foretold");
}
