/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how calls of a class are made where several are under way at once, and begin in another
 * order on each rank: gloo's. The calls have numbers that are equal on all ranks.
 *
 * What a call takes follows from its number and from a stage of the class: while a class learns, a
 * number that is mixed draws one of the candidates; a settled class takes the best. One call of
 * some is a deciding one, by the same mixing. In it each rank tells rank 0 which calls it has
 * timed, and the highest number that has begun there; rank 0 chooses (choice.h) by the calls that
 * all ranks have timed, and tells the next stage, with the number from which it is in force: one
 * that no rank has reached. So no two ranks take a call differently. For each call
 *
 *     if (!cshim_draw_may_begin(draw, number))
 *         ... wait until a deciding call that is under way has ended ...
 *     candidate = cshim_draw_begin(draw, number, &decides);
 *     ... make the call by the candidate ...
 *     cshim_draw_end(draw, number, candidate, seconds);
 *     if (decides) {
 *         cshim_draw_tell(draw, &told);
 *         ... rank 0 gets what all ranks have told: ...
 *         stage = cshim_draw_decide(draw, choice, number, told of all ranks, ranks);
 *         ... and all ranks get the stage ...
 *         cshim_draw_take(draw, &stage);
 *     }
 *
 * A rank waits only where a deciding call lasts as long as CSHIM_DRAW_AHEAD further ones. A class
 * whose numbers follow no order at all stays with its first stages.
 *
 * Pure: reads no clock and sends nothing. Not thread-safe: the caller has a lock. */
#ifndef CSHIM_DRAW_H
#define CSHIM_DRAW_H

#include "shim/core/choice.h"

/* So many numbers behind the highest that has begun calls may begin while a decision is made. */
#define CSHIM_DRAW_AHEAD 16u
/* Stages of a class; then it stays with the candidate that was the best. */
#define CSHIM_DRAW_STAGES 64u
#define CSHIM_DRAW_SAMPLES 48u

/* What calls from a number on take. Travels between ranks as bytes. */
struct cshim_draw_stage {
    uint64_t from;
    uint8_t is_new; /* else the rest is unused, and nothing changes */
    uint8_t in_turn;
    uint8_t turns[CSHIM_CANDIDATES_MAX]; /* candidates that calls draw from while a class learns */
    uint8_t is_settled;
    uint8_t best;
    uint8_t next_best;
    uint8_t tries; /* some calls take the next best one */
};

/* A call that this rank has timed. */
struct cshim_draw_sample {
    uint64_t number;
    float seconds;
    uint32_t candidate;
};

/* What a rank tells in a deciding call. Travels between ranks as bytes. */
struct cshim_draw_told {
    uint64_t highest; /* number of a call that has begun */
    uint64_t late;    /* calls of a former stage that began after one of the latest */
    uint64_t samples;
    struct cshim_draw_sample sample[CSHIM_DRAW_SAMPLES]; /* in no order */
};

struct cshim_draw {
    unsigned stages;
    struct cshim_draw_stage stage[CSHIM_DRAW_STAGES];
    unsigned deciding; /* deciding calls under way that have told */
    uint64_t limit;    /* meanwhile: the highest number that may begin */
    struct cshim_draw_told own;
};

/* Starts a class whose calls take the prior until the first decision. */
void cshim_draw_init(struct cshim_draw *draw, unsigned prior);

/* Returns true if what the call takes is known. */
bool cshim_draw_may_begin(const struct cshim_draw *draw, uint64_t number);

/* Begins a call, and returns its candidate. Sets *decides if the ranks
 * decide in it. */
unsigned cshim_draw_begin(struct cshim_draw *draw, uint64_t number, bool *decides);

/* Ends a call that took this rank so many seconds. */
void cshim_draw_end(struct cshim_draw *draw, uint64_t number, unsigned candidate, double seconds);

/* Fills in what this rank tells in a deciding call. */
void cshim_draw_tell(struct cshim_draw *draw, struct cshim_draw_told *told);

/* Decides at rank 0 in the call `number` by what all ranks have told; `choice` has what was learned
 * so far, and is rank 0's alone. */
struct cshim_draw_stage cshim_draw_decide(struct cshim_draw *draw, struct cshim_choice *choice,
                                          uint64_t number, const struct cshim_draw_told *told,
                                          unsigned ranks);

/* Takes the stage that rank 0 has told; ends the deciding call. */
void cshim_draw_take(struct cshim_draw *draw, const struct cshim_draw_stage *stage);

#endif
