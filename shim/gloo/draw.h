/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how calls of a class are made if several are in progress at once, and begin in a
 * different order on each rank, as with gloo. The calls have numbers that are equal on all ranks.
 *
 * A call's candidate follows from its number and from the stage of its class: while a class learns,
 * a hash of the number draws one of the candidates; a settled class takes the best, in trials the
 * next best or the native one. The hash also says in which calls the ranks decide. There each rank
 * sends rank 0 the durations of the latest CSHIM_DRAW_SAMPLES calls that it has timed, and the
 * highest number that has begun on it. Rank 0 chooses (choice.h) by the calls that all ranks have
 * timed, and sends the next stage to all ranks, with the number of the first call that it is in
 * force for: one that no rank has reached. So no two ranks make a call differently. For each call
 *
 *     if (!cshim_draw_may_begin(draw, number))
 *         ... wait until the decision that is under way has ended ...
 *     call = cshim_draw_begin(draw, number);
 *     if (call.is_timed)
 *         ... wait until all ranks have begun the call ...
 *     ... make the call by call.candidate ...
 *     cshim_draw_end(draw, number, call.candidate, seconds);
 *     if (call.decides) {
 *         cshim_draw_fill_timings(draw, &timings);
 *         ... rank 0 receives the timings of all ranks ...
 *         stage = cshim_draw_decide(draw, choice, number, timings, ranks);
 *         ... and sends all ranks the stage ...
 *         cshim_draw_take(draw, &stage);
 *     }
 *
 * Timed calls wait in the barrier, and deciding ones for rank 0's answer. Others wait only if a
 * decision takes longer than about CSHIM_DRAW_AHEAD further calls. A class whose calls begin in no
 * order of their numbers may never get past its second stage.
 *
 * Pure: reads no clock and sends nothing. Not thread-safe: the caller has a lock. */
#ifndef CSHIM_DRAW_H
#define CSHIM_DRAW_H

#include "shim/core/choice.h"

/* While the ranks decide, a call may begin only if its number is at most this much above the
 * highest number that had begun on this rank when it sent its timings. */
#define CSHIM_DRAW_AHEAD 16u
/* Maximum number of stages of a class. A settled class keeps its latest stage if too few stages are
 * left to learn again. */
#define CSHIM_DRAW_STAGES 64u
#define CSHIM_DRAW_SAMPLES 48u

/* The stage of a class: how its calls with numbers from `from` on choose their candidates. Travels
 * between ranks as bytes. */
struct cshim_draw_stage {
    uint64_t from;
    uint8_t is_new; /* 0: the latest stage stays, and the other members are unused */
    uint8_t in_turn;
    uint8_t turns[CSHIM_CANDIDATES_MAX]; /* candidates that calls draw from while a class learns */
    uint8_t is_settled;
    uint8_t best;
    uint8_t next_best;
    uint8_t tries; /* 1: trials take `next_best`; 2: some trials take the native candidate */
};

/* A call that this rank has timed. */
struct cshim_draw_sample {
    uint64_t number;
    float seconds;
    uint32_t candidate;
};

/* Durations that a rank has measured. Each rank sends them to rank 0 as bytes when the ranks
 * decide. */
struct cshim_draw_timings {
    uint64_t highest; /* highest number of a call that has begun */
    /* Number of calls, since the rank's previous timings, that belong to a former stage but began
     * after a call of the latest stage. */
    uint64_t late;
    uint64_t samples;
    struct cshim_draw_sample sample[CSHIM_DRAW_SAMPLES]; /* in no order */
};

struct cshim_draw {
    unsigned stages;
    struct cshim_draw_stage stage[CSHIM_DRAW_STAGES];
    unsigned deciding; /* number of decisions in progress that have got this rank's timings */
    uint64_t limit;    /* if `deciding` > 0: the highest number that may begin */
    struct cshim_draw_timings own;
};

/* Starts a class whose calls take the prior until the first decision. */
void cshim_draw_init(struct cshim_draw *draw, unsigned prior);

/* Returns true if the candidate of the call is known; otherwise the call has to wait for a
 * decision. */
bool cshim_draw_may_begin(const struct cshim_draw *draw, uint64_t number);

struct cshim_draw_call {
    unsigned candidate;
    bool decides;  /* the ranks decide in this call, if the candidate can make it */
    bool is_timed; /* its duration is used: the ranks begin it together */
};

/* Begins a call for which cshim_draw_may_begin() is true. */
struct cshim_draw_call cshim_draw_begin(struct cshim_draw *draw, uint64_t number);

/* Ends a call; `seconds` is its duration on this rank since all ranks had begun it, or INFINITY if
 * the candidate could not make it. */
void cshim_draw_end(struct cshim_draw *draw, uint64_t number, unsigned candidate, double seconds);

/* Fills in this rank's timings, for a call in which the ranks decide. Until cshim_draw_take(),
 * calls with numbers above draw->limit may not begin. */
void cshim_draw_fill_timings(struct cshim_draw *draw, struct cshim_draw_timings *timings);

/* Returns the next stage, which rank 0 decides in the call `number` by the calls that all ranks
 * have timed. `choice` has what was learned so far; only rank 0 has it. */
struct cshim_draw_stage cshim_draw_decide(struct cshim_draw *draw, struct cshim_choice *choice,
                                          uint64_t number, const struct cshim_draw_timings *timings,
                                          unsigned ranks);

/* Adds the stage that rank 0 has sent, if it is new, and ends the decision. */
void cshim_draw_take(struct cshim_draw *draw, const struct cshim_draw_stage *stage);

#endif
