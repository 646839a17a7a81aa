/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/draw.h"

#include <math.h>
#include <string.h>

#include "codecs/floats.h"

/* The ranks decide in one of this many calls: while a learning class has one candidate, as before
 * its first decision; while it has several; and once the class is settled. */
#define FIRST_DECISION 4u
#define LEARNING_DECISION 8u
#define SETTLED_DECISION 64u
/* One of SETTLED_SAMPLE calls of a settled class is timed. If the stage has trials, one of TRIAL
 * calls is a trial, and is timed, too: it takes the next best candidate or, in one of NATIVE_TRIAL
 * trials if the stage says so, the native one. */
#define SETTLED_SAMPLE 32u
#define TRIAL 32u
#define NATIVE_TRIAL 4u
/* Samples of the best candidate by which a settled class is checked. */
#define SETTLED_SAMPLES 2u

/* Maximum number of stages from the beginning of learning up to and including the settled stage:
 * each stage between the first and the settled one drops a candidate or more. */
#define LEARNING_STAGES CSHIM_CANDIDATES_MAX

/* Purposes of draws. A purpose is hashed together with a call's number, so that the call's draws
 * for different purposes are independent. */
enum purpose { CANDIDATE = 1, DECISION, SAMPLE, TRY, TRY_NATIVE };

/* Returns a number from 0 to `of` - 1 that depends on `number` and `purpose` alone. */
static unsigned draw_from(uint64_t number, enum purpose purpose, unsigned of)
{
    const uint64_t mixed = cshim_mix(number * CSHIM_GOLDEN + (uint64_t)purpose);
    return (unsigned)((mixed >> 32) * of >> 32);
}

void cshim_draw_init(struct cshim_draw *draw, unsigned prior)
{
    memset(draw, 0, sizeof *draw);
    draw->stages = 1;
    draw->stage[0] =
        (struct cshim_draw_stage){.is_new = 1, .in_turn = 1, .turns = {(uint8_t)prior}};
}

static const struct cshim_draw_stage *latest_stage(const struct cshim_draw *draw)
{
    return &draw->stage[draw->stages - 1];
}

bool cshim_draw_may_begin(const struct cshim_draw *draw, uint64_t number)
{
    return draw->deciding == 0 || number <= draw->limit;
}

/* Returns the stage in force for call `number`. The first stage begins at call 0. */
static const struct cshim_draw_stage *stage_at(const struct cshim_draw *draw, uint64_t number)
{
    unsigned i = draw->stages - 1;
    while (i > 0 && draw->stage[i].from > number)
        i--;
    return &draw->stage[i];
}

static bool is_trial(const struct cshim_draw_stage *stage, uint64_t number)
{
    return stage->tries && draw_from(number, TRY, TRIAL) == 0;
}

/* Returns the candidate of a trial: the next best one or, if the stage says so, in one of
 * NATIVE_TRIAL trials the native one, for the report. */
static unsigned tried_candidate(const struct cshim_draw_stage *stage, uint64_t number)
{
    const bool is_native = stage->tries == 2 && draw_from(number, TRY_NATIVE, NATIVE_TRIAL) == 0;
    return is_native ? CSHIM_CANDIDATE_NATIVE : stage->next_best;
}

/* Returns true if the seconds of a call are used. */
static bool is_timed(const struct cshim_draw_stage *stage, uint64_t number)
{
    return !stage->is_settled || is_trial(stage, number) ||
           draw_from(number, SAMPLE, SETTLED_SAMPLE) == 0;
}

struct cshim_draw_call cshim_draw_begin(struct cshim_draw *draw, uint64_t number)
{
    const struct cshim_draw_stage *stage = stage_at(draw, number), *latest = latest_stage(draw);
    draw->own.late += number < latest->from && draw->own.highest >= latest->from;
    const unsigned one_of = stage->is_settled     ? SETTLED_DECISION
                            : stage->in_turn == 1 ? FIRST_DECISION
                                                  : LEARNING_DECISION;
    struct cshim_draw_call call = {.decides = draw_from(number, DECISION, one_of) == 0,
                                   .is_timed = is_timed(stage, number)};
    if (number > draw->own.highest)
        draw->own.highest = number;
    if (!stage->is_settled)
        call.candidate = stage->turns[draw_from(number, CANDIDATE, stage->in_turn)];
    else
        call.candidate = is_trial(stage, number) ? tried_candidate(stage, number) : stage->best;
    return call;
}

void cshim_draw_end(struct cshim_draw *draw, uint64_t number, unsigned candidate, double seconds)
{
    if (!is_timed(stage_at(draw, number), number))
        return;
    draw->own.sample[draw->own.samples++ % CSHIM_DRAW_SAMPLES] =
        (struct cshim_draw_sample){number, (float)seconds, candidate};
}

void cshim_draw_fill_timings(struct cshim_draw *draw, struct cshim_draw_timings *timings)
{
    if (draw->deciding++ == 0)
        draw->limit = draw->own.highest + CSHIM_DRAW_AHEAD;
    *timings = draw->own;
    if (timings->samples > CSHIM_DRAW_SAMPLES)
        timings->samples = CSHIM_DRAW_SAMPLES;
    draw->own.late = 0;
}

/* Returns a rank's seconds of a call; negative if it has not timed it. */
static float seconds_of(const struct cshim_draw_timings *timings, uint64_t number)
{
    for (uint64_t i = 0; i < timings->samples && i < CSHIM_DRAW_SAMPLES; i++)
        if (timings->sample[i].number == number)
            return timings->sample[i].seconds;
    return -1;
}

/* Returns the largest seconds over the ranks of a call that all have timed; negative if some has
 * not. */
static float largest_of(const struct cshim_draw_timings *timings, unsigned ranks, uint64_t number)
{
    float largest = 0;
    for (unsigned rank = 0; rank < ranks; rank++) {
        const float seconds = seconds_of(&timings[rank], number);
        if (seconds < 0)
            return -1;
        largest = fmaxf(largest, seconds);
    }
    return largest;
}

/* Passes the durations of calls that all ranks have timed to the choice, each once. */
static void learn_timings(struct cshim_draw *draw, struct cshim_choice *choice,
                          const struct cshim_draw_timings *timings, unsigned ranks)
{
    for (unsigned i = 0; i < draw->own.samples && i < CSHIM_DRAW_SAMPLES; i++) {
        struct cshim_draw_sample *sample = &draw->own.sample[i];
        const float seconds =
            sample->seconds >= 0 ? largest_of(timings, ranks, sample->number) : -1;
        if (seconds < 0)
            continue;
        cshim_choice_learn(choice, sample->candidate, seconds, sample->seconds);
        sample->seconds = -1; /* it has been counted */
    }
}

/* Returns true if there are samples enough for the choice's next decision. */
static bool is_ready(const struct cshim_choice *choice)
{
    if (choice->phase == CSHIM_CHOICE_SETTLED)
        return cshim_choice_samples_of(choice, choice->best) >= SETTLED_SAMPLES;
    for (unsigned i = 0; i < choice->in_turn; i++)
        if (cshim_choice_samples_of(choice, choice->turns[i]) < choice->rounds)
            return false;
    return true;
}

/* Returns the stage that follows from a choice, in force from a number on. */
static struct cshim_draw_stage make_stage(const struct cshim_choice *choice, uint64_t from)
{
    struct cshim_draw_stage stage = {.from = from,
                                     .is_new = 1,
                                     .in_turn = (uint8_t)choice->in_turn,
                                     .is_settled = choice->phase == CSHIM_CHOICE_SETTLED};
    for (unsigned i = 0; i < choice->in_turn && !stage.is_settled; i++)
        stage.turns[i] = (uint8_t)choice->turns[i];
    if (stage.is_settled) {
        stage.in_turn = 0;
        stage.best = (uint8_t)choice->best;
        stage.next_best = (uint8_t)choice->next_best;
        stage.tries = !choice->tries ? 0 : choice->native_row == 0 ? 1 : 2;
    }
    return stage;
}

/* Returns true if calls of two stages choose their candidates alike. */
static bool is_alike(const struct cshim_draw_stage *a, const struct cshim_draw_stage *b)
{
    return a->is_settled == b->is_settled && a->best == b->best && a->next_best == b->next_best &&
           a->tries == b->tries && a->in_turn == b->in_turn &&
           memcmp(a->turns, b->turns, sizeof a->turns) == 0;
}

struct cshim_draw_stage cshim_draw_decide(struct cshim_draw *draw, struct cshim_choice *choice,
                                          uint64_t number, const struct cshim_draw_timings *timings,
                                          unsigned ranks)
{
    const struct cshim_draw_stage *latest = latest_stage(draw);
    uint64_t highest = 0, late = 0;
    learn_timings(draw, choice, timings, ranks);
    for (unsigned rank = 0; rank < ranks; rank++) {
        highest = timings[rank].highest > highest ? timings[rank].highest : highest;
        late += timings[rank].late;
    }
    const bool is_in_force = latest->from <= number && late == 0;
    const bool has_room = !latest->is_settled || draw->stages + LEARNING_STAGES < CSHIM_DRAW_STAGES;
    if (!is_in_force || !has_room || (draw->stages > 1 && !is_ready(choice)))
        return (struct cshim_draw_stage){.is_new = 0};
    if (draw->stages > 1)
        cshim_choice_decide(choice);
    struct cshim_draw_stage stage = make_stage(choice, latest->from);
    stage.is_new = !is_alike(&stage, latest);
    stage.from = highest + CSHIM_DRAW_AHEAD + 1;
    return stage;
}

void cshim_draw_take(struct cshim_draw *draw, const struct cshim_draw_stage *stage)
{
    if (stage->is_new)
        draw->stage[draw->stages++] = *stage;
    draw->deciding--;
}
