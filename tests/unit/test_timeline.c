/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that the time of a timeline is divided among its calls, fairly and completely. */
#include <math.h>

#include "shim/core/compiler.h"
#include "shim/nccl/timeline.h"
#include "tests/unit/unit.h"

static struct cshim_timeline *make_timeline(size_t calls)
{
    struct cshim_timeline *timeline = cshim_timeline_make(32, 64, calls);
    assert_non_null(timeline);
    timeline->call_count = calls;
    cshim_timeline_mark(timeline, NULL); /* mark at time 0 */
    return timeline;
}

/* Returns the steps of a rank's first segment of a call on two nodes of two ranks. */
static uint16_t steps_of(enum cshim_collective collective, enum cshim_algorithm algorithm, int rank)
{
    static const int nodes[] = {0, 0, 1, 1};
    const struct cshim_rule rule = {.codec = CSHIM_CODEC_INT8};
    const struct cshim_call call = {.library = CSHIM_NCCL,
                                    .collective = collective,
                                    .bytes = 1 << 20,
                                    .ranks = 4,
                                    .nodes = 2,
                                    .ranks_per_node = 2};
    const struct cshim_plan plan =
        cshim_plan_call_by(algorithm, &rule, &call, call.bytes / sizeof(float));
    struct cshim_layout layout;
    struct cshim_operations operations = {0};
    assert_true(cshim_layout_make(&layout, nodes, 4, 2, rank));
    struct cshim_role role = {.plan = &plan, .layout = &layout, .rank = rank};
    cshim_role_find(&role);
    const struct cshim_segment segment = cshim_segment_at(&role, 0);
    assert_true(cshim_compile(&operations, &segment));
    const uint16_t steps = cshim_steps_of(&operations);
    cshim_operations_free(&operations);
    cshim_layout_free(&layout);
    return steps;
}

static void add_call(struct cshim_timeline *timeline, uint32_t call,
                     enum cshim_collective collective, enum cshim_algorithm algorithm)
{
    timeline->calls[call].steps = steps_of(collective, algorithm, 0);
}

/* Begins a batch with these bytes of the first and the second call. */
static void begin_batch(struct cshim_timeline *timeline, uint64_t first, uint64_t second)
{
    timeline->calls[0].batch_bytes = first;
    if (timeline->call_count > 1)
        timeline->calls[1].batch_bytes = second;
}

/* Adds an interval, ending at `time`, in which the calls of the batch did a step. */
static void add_interval(struct cshim_timeline *timeline, enum cshim_step step, double time)
{
    assert_true(cshim_timeline_share(timeline, step));
    cshim_timeline_mark(timeline, NULL);
    timeline->marks[timeline->mark_count - 1].time = time;
}

static void assert_seconds(double seconds, double wanted)
{
    if (fabs(seconds - wanted) > 1e-12)
        fail_msg("%g s, not %g", seconds, wanted);
}

static void assert_figures(const struct cshim_timed_call *call, double encode, double exchange,
                           double decode)
{
    assert_seconds(call->figures.seconds_of[CSHIM_PHASE_ENCODE], encode);
    assert_seconds(call->figures.seconds_of[CSHIM_PHASE_EXCHANGE], exchange);
    assert_seconds(call->figures.seconds_of[CSHIM_PHASE_DECODE], decode);
    assert_seconds(call->figures.seconds, encode + exchange + decode);
}

TEST(one_call)
{
    struct cshim_timeline *timeline = make_timeline(1);
    add_call(timeline, 0, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    begin_batch(timeline, 100, 0);
    add_interval(timeline, CSHIM_STEP_ENCODE, 1);
    add_interval(timeline, CSHIM_STEP_EXCHANGE, 3);
    add_interval(timeline, CSHIM_STEP_SUM, 6);
    add_interval(timeline, CSHIM_STEP_COLLECT, 10);
    add_interval(timeline, CSHIM_STEP_DECODE, 15);
    begin_batch(timeline, 50, 0);
    add_interval(timeline, CSHIM_STEP_ENCODE, 22);
    cshim_timeline_add_up(timeline);
    assert_figures(&timeline->calls[0], 1 + 7, 2 + 4, 3 + 5);
    assert_seconds(timeline->calls[0].begin, 0);
    assert_seconds(timeline->calls[0].end, 22);
    free(timeline);
}

/* Shared steps are divided by the calls' bytes. The time of a step that only one call has counts
 * for that call. */
TEST(two_calls)
{
    struct cshim_timeline *timeline = make_timeline(2);
    add_call(timeline, 0, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    add_call(timeline, 1, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_ONE_SHOT);
    begin_batch(timeline, 300, 100);
    add_interval(timeline, CSHIM_STEP_ENCODE, 4);
    add_interval(timeline, CSHIM_STEP_EXCHANGE, 8);
    add_interval(timeline, CSHIM_STEP_SUM, 12);
    add_interval(timeline, CSHIM_STEP_COLLECT, 16);
    add_interval(timeline, CSHIM_STEP_DECODE, 20);
    assert_false(cshim_timeline_share(timeline, CSHIM_STEP_NARROW));
    cshim_timeline_add_up(timeline);
    assert_figures(&timeline->calls[0], 3, 3 + 4, 3 + 4);
    assert_figures(&timeline->calls[1], 1, 1, 1);
    assert_seconds(timeline->calls[1].begin, 3);
    assert_seconds(timeline->calls[1].end, 12);
    free(timeline);
}

TEST(a_clock_that_goes_back)
{
    struct cshim_timeline *timeline = make_timeline(1);
    add_call(timeline, 0, CSHIM_REDUCE_SCATTER, CSHIM_ALGORITHM_TWO_SHOT);
    begin_batch(timeline, 100, 0);
    add_interval(timeline, CSHIM_STEP_ENCODE, 2);
    add_interval(timeline, CSHIM_STEP_EXCHANGE, 1.5);
    cshim_timeline_add_up(timeline);
    assert_figures(&timeline->calls[0], 2, 0, 0);
    free(timeline);
}

/* Tests the phase that each step of a call counts as, at the root of a broadcast and at another
 * rank. */
TEST(phases)
{
    static const struct {
        enum cshim_collective collective;
        enum cshim_algorithm algorithm;
        int rank;
        const char *phases; /* per step: encode, exchange, decode or none */
    } calls[] = {
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_ONE_SHOT, 0, "-ex-d---"},
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT, 0, "-ex-dxd-"},
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_HIERARCHICAL, 0, "xex-dxdx"},
        {CSHIM_REDUCE_SCATTER, CSHIM_ALGORITHM_TWO_SHOT, 0, "-ex-d---"},
        {CSHIM_REDUCE_SCATTER, CSHIM_ALGORITHM_HIERARCHICAL, 0, "xex-d---"},
        {CSHIM_ALLGATHER, CSHIM_ALGORITHM_ONE_SHOT, 0, "-ex---d-"},
        {CSHIM_ALLTOALL, CSHIM_ALGORITHM_ONE_SHOT, 0, "-ex---d-"},
        {CSHIM_BROADCAST, CSHIM_ALGORITHM_ONE_SHOT, 0, "-ex---d-"},
        {CSHIM_BROADCAST, CSHIM_ALGORITHM_ONE_SHOT, 1, "--x---d-"},
    };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        const uint16_t steps = steps_of(calls[i].collective, calls[i].algorithm, calls[i].rank);
        for (enum cshim_step step = 0; step < CSHIM_STEPS; step++) {
            const char got = (steps >> step & 1) != 0 ? "exd"[cshim_step_phase(step)] : '-';
            const char wanted = calls[i].phases[step];
            if (got != wanted)
                fail_msg("call %zu, step %d: %c, not %c", i, (int)step, got, wanted);
        }
    }
}
