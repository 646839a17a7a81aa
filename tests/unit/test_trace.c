/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the trace (COMPSHIM_TRACE): a bounded number of events, on one clock, and valid JSON with
 * any contents. */
#include <jansson.h>
#include <math.h>

#include "shim/report/trace.h"
#include "tests/unit/unit.h"

TEST(bounded)
{
    struct cshim_trace *trace = calloc(1, sizeof *trace);
    assert_non_null(trace);
    for (uint32_t i = 0; i < CSHIM_TRACE_EVENTS + 100; i++)
        cshim_trace_add(trace, (struct cshim_trace_event){.call = i});
    assert_int_equal(cshim_trace_kept(trace), CSHIM_TRACE_EVENTS);
    assert_int_equal(trace->count, CSHIM_TRACE_EVENTS + 100);
    assert_int_equal(trace->events[CSHIM_TRACE_EVENTS - 1].call, CSHIM_TRACE_EVENTS - 1);
    free(trace);
}

/* Tests a clock that is 100 s late and drifts by 1 s in 1000. */
TEST(aligned)
{
    const struct cshim_trace_clock drifting = {.at = {50, 1050}, .offset = {100, 101}};
    const struct cshim_trace_clock short_job = {.at = {50, 50}, .offset = {100, 100}};
    assert_true(fabs(cshim_trace_align(&drifting, 50) - 150) < 1e-9);
    assert_true(fabs(cshim_trace_align(&drifting, 1050) - 1151) < 1e-9);
    assert_true(fabs(cshim_trace_align(&drifting, 550) - 650.5) < 1e-9);
    assert_true(fabs(cshim_trace_align(&short_job, 60) - 160) < 1e-9);
}

static json_t *write_and_read(const struct cshim_trace_event *events, size_t count,
                              const char *rule_name)
{
    struct cshim_rule rule = {.codec = CSHIM_CODEC_FP16};
    const struct cshim_policy policy = {.rule_count = 1, .rules = &rule};
    char *text = NULL;
    size_t length = 0;
    json_error_t error;
    snprintf(rule.name, sizeof rule.name, "%s", rule_name);
    struct cshim_trace_file file = {.stream = open_memstream(&text, &length), .policy = &policy};
    assert_non_null(file.stream);
    cshim_trace_begin(&file);
    for (int rank = 0; rank < 2; rank++) {
        cshim_trace_rank(&file, rank, "host \"\\\x01\xff");
        cshim_trace_events(&file, rank, events, count);
    }
    file.dropped = 7;
    cshim_trace_end(&file);
    fclose(file.stream);
    json_t *root = json_loads(text, 0, &error);
    if (root == NULL)
        fail_msg("line %d: %s\n%s", error.line, error.text, text);
    free(text);
    return root;
}

TEST(each_kind)
{
    const struct cshim_trace_event events[] = {
        {.kind = CSHIM_TRACE_CALL,
         .begin = 1,
         .seconds = 0.5,
         .bytes = 64,
         .codec = 3,
         .algorithm = CSHIM_ALGORITHM_TWO_SHOT,
         .thread = 1},
        {.kind = CSHIM_PHASE_ENCODE, .begin = 1.1, .seconds = 0.1, .thread = 1},
        {.kind = CSHIM_PHASE_EXCHANGE, .begin = 1.2, .seconds = 0.1, .thread = 1},
        {.kind = CSHIM_PHASE_DECODE, .begin = 1.3, .seconds = 0.1, .thread = 1},
        {.kind = CSHIM_TRACE_PASSED, .begin = 2, .seconds = 0.1, .reason = CSHIM_REASON_OP},
        {.kind = CSHIM_TRACE_PENDING, .begin = 3, .seconds = 0.1, .rule = 9},
    };
    static const char *const names[] = {
        "allreduce fp16",       "encode",         "exchange",      "decode",
        "allreduce passed: op", "allreduce none", "allreduce none"};
    json_t *root = write_and_read(events, 6, "a \"rule\"");
    const json_t *list = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(list), 2 * (2 + 7));
    for (size_t i = 0; i < 7; i++) {
        const json_t *event = json_array_get(list, 2 + i);
        assert_string_equal(json_string_value(json_object_get(event, "name")), names[i]);
    }
    const json_t *call = json_array_get(list, 2);
    assert_true(json_number_value(json_object_get(call, "ts")) == 1e6);
    assert_true(json_number_value(json_object_get(call, "dur")) == 0.5e6);
    assert_string_equal(json_string_value(json_object_get(json_object_get(call, "args"), "rule")),
                        "a \"rule\"");
    const json_t *begin = json_array_get(list, 7), *end = json_array_get(list, 8);
    assert_string_equal(json_string_value(json_object_get(begin, "ph")), "b");
    assert_string_equal(json_string_value(json_object_get(end, "ph")), "e");
    assert_true(json_equal(json_object_get(begin, "id"), json_object_get(end, "id")));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(root, "otherData"), "dropped_events")),
        7);
    json_decref(root);
}

TEST(no_events)
{
    json_t *root = write_and_read(NULL, 0, "");
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 4);
    json_decref(root);
}
