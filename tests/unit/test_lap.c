/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a lap is shared out among its calls: fairly, and all of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "shim/nccl/lap.h"

static struct cshim_lap *make(size_t parts)
{
    struct cshim_lap *lap = cshim_lap_make(32, 8, parts);
    assert_non_null(lap);
    lap->part_count = parts;
    lap->mark_count = 1; /* at 0 */
    return lap;
}

static void add_part(struct cshim_lap *lap, uint32_t part, enum cshim_collective collective,
                     enum cshim_algorithm algorithm)
{
    lap->parts[part].plan =
        (struct cshim_plan){.schedule = cshim_schedule_of(collective, algorithm)};
}

static void add_turn(struct cshim_lap *lap, uint32_t round, uint32_t part, uint64_t bytes)
{
    lap->turns[lap->turn_count++] = (struct cshim_lap_turn){round, part, bytes};
}

static void add_mark(struct cshim_lap *lap, uint32_t round, enum cshim_step step, double time)
{
    lap->marks[lap->mark_count++] =
        (struct cshim_lap_mark){.round = round, .step = step, .time = time};
}

static void assert_seconds(double seconds, double wanted)
{
    if (fabs(seconds - wanted) > 1e-12)
        fail_msg("%g s, not %g", seconds, wanted);
}

static void assert_figures(const struct cshim_lap_part *part, double encode, double exchange,
                           double decode, double other)
{
    assert_seconds(part->figures.seconds_encode, encode);
    assert_seconds(part->figures.seconds_exchange, exchange);
    assert_seconds(part->figures.seconds_decode, decode);
    assert_seconds(part->figures.seconds, encode + exchange + decode + other);
}

static void one_call(void **state)
{
    (void)state;
    struct cshim_lap *lap = make(1);
    add_part(lap, 0, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    add_turn(lap, 0, 0, 100);
    add_turn(lap, 1, 0, 50);
    add_mark(lap, 0, CSHIM_STEP_ENCODE, 1);
    add_mark(lap, 0, CSHIM_STEP_EXCHANGE, 3);
    add_mark(lap, 0, CSHIM_STEP_SUM, 6);
    add_mark(lap, 0, CSHIM_STEP_COLLECT, 10);
    add_mark(lap, 0, CSHIM_STEP_DECODE, 15);
    add_mark(lap, 1, CSHIM_STEPS, 21); /* waits */
    add_mark(lap, 1, CSHIM_STEP_ENCODE, 28);
    cshim_lap_add_up(lap);
    assert_figures(&lap->parts[0], 1 + 7, 2 + 4, 3 + 5, 6);
    assert_seconds(lap->parts[0].begin, 0);
    assert_seconds(lap->parts[0].end, 28);
    free(lap);
}

/* Each by its bytes in what both do; alone in what one does alone. */
static void two_calls(void **state)
{
    (void)state;
    struct cshim_lap *lap = make(2);
    add_part(lap, 0, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    add_part(lap, 1, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_ONE_SHOT);
    add_turn(lap, 0, 0, 300);
    add_turn(lap, 0, 1, 100);
    add_mark(lap, 0, CSHIM_STEP_ENCODE, 4);
    add_mark(lap, 0, CSHIM_STEP_EXCHANGE, 8);
    add_mark(lap, 0, CSHIM_STEP_SUM, 12);
    add_mark(lap, 0, CSHIM_STEP_COLLECT, 16);
    add_mark(lap, 0, CSHIM_STEP_DECODE, 20);
    cshim_lap_add_up(lap);
    assert_figures(&lap->parts[0], 3, 3 + 4, 3 + 4, 0);
    assert_figures(&lap->parts[1], 1, 1, 1, 0);
    assert_seconds(lap->parts[1].begin, 3);
    assert_seconds(lap->parts[1].end, 12);
    free(lap);
}

/* There were no events left after the first step: what remains is everybody's, but of no phase. */
static void a_short_one(void **state)
{
    (void)state;
    struct cshim_lap *lap = make(2);
    add_part(lap, 0, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    add_part(lap, 1, CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT);
    add_turn(lap, 0, 0, 100);
    add_turn(lap, 1, 0, 100);
    add_turn(lap, 1, 1, 200);
    add_mark(lap, 0, CSHIM_STEP_ENCODE, 2);
    add_mark(lap, 0, CSHIM_STEPS, 10);
    cshim_lap_add_up(lap);
    assert_figures(&lap->parts[0], 2, 0, 0, 4);
    assert_figures(&lap->parts[1], 0, 0, 0, 4);
    free(lap);
}

static void a_clock_that_goes_back(void **state)
{
    (void)state;
    struct cshim_lap *lap = make(1);
    add_part(lap, 0, CSHIM_REDUCE_SCATTER, CSHIM_ALGORITHM_TWO_SHOT);
    add_turn(lap, 0, 0, 100);
    add_mark(lap, 0, CSHIM_STEP_ENCODE, 2);
    add_mark(lap, 0, CSHIM_STEP_EXCHANGE, 1.5);
    cshim_lap_add_up(lap);
    assert_figures(&lap->parts[0], 2, 0, 0, 0);
    free(lap);
}

/* The steps that a call's kernels and messages are in: steps.c. */
static void phases(void **state)
{
    (void)state;
    static const struct {
        enum cshim_collective collective;
        enum cshim_algorithm algorithm;
        const char *phases; /* of each step: encode, exchange, decode or none */
    } calls[] = {
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_CAST, "-exe-xd-"},
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_ONE_SHOT, "-ex-d---"},
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_TWO_SHOT, "-ex-dxd-"},
        {CSHIM_ALLREDUCE, CSHIM_ALGORITHM_HIERARCHICAL, "xex-dxdx"},
        {CSHIM_REDUCE_SCATTER, CSHIM_ALGORITHM_TWO_SHOT, "-ex-d---"},
        {CSHIM_ALLGATHER, CSHIM_ALGORITHM_ONE_SHOT, "-ex---d-"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct cshim_schedule *schedule =
            cshim_schedule_of(calls[i].collective, calls[i].algorithm);
        for (enum cshim_step step = 0; step < CSHIM_STEPS; step++) {
            const bool has = cshim_schedule_has(schedule, step);
            const char got = has ? "exd"[cshim_step_phase(step)] : '-';
            const char wanted = calls[i].phases[step];
            if (got != wanted)
                fail_msg("call %zu, step %d: %c, not %c", i, (int)step, got, wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call),    cmocka_unit_test(two_calls),
        cmocka_unit_test(a_short_one), cmocka_unit_test(a_clock_that_goes_back),
        cmocka_unit_test(phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
