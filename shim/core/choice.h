/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how the calls of a class are made, by their measured durations in this job.
 *
 * A class holds calls that take about the same time: of one communicator, rule, codec that the rule
 * or its max_rel_error requires, element type, operation and size class. Its calls have a few
 * candidates. Candidate 0 is the library's own call; each other one is an algorithm with a codec.
 * With MPI all ranks go through the same calls in the same order (gloo: shim/gloo/draw.h; NCCL:
 * calls take the best candidate until a decision that is due has been made) and do, for each of
 * them:
 *
 *     if (cshim_choice_is_due(choice)) {
 *         choice->seconds[i] = the same duration on all ranks, for i < choice->samples;
 *         cshim_choice_decide(choice);
 *     }
 *     candidate = cshim_choice_begin(choice);
 *     if (choice->is_sampled)
 *         ... wait in a barrier for all ranks ...
 *     ... make the call by the candidate ...
 *     cshim_choice_end(choice, seconds that this rank was in the call);
 *
 * The barrier makes the ranks begin a sampled call together, so a rank's duration contains no
 * waiting for ranks that come late, and the ranks agree on the largest of their durations. (Without
 * a barrier, as with NCCL, they agree on the least, which is that of the rank that comes last. If
 * ranks receive at different speeds, that is too short: it excludes the time that the slowest rank
 * waits for its messages.)
 *
 * The ranks decide at the end of each phase and period:
 *
 *     FIRST ---> LAST ---> SETTLED, a period of 96 calls <---+
 *       ^        ^  |        |              |                |
 *       |        +--+        | in doubt     +----------------+ not in doubt
 *       |     more rows      v                               |
 *       +------------ a check: a period of 17 calls ---------+
 *        still in doubt
 *
 * FIRST: each candidate makes a row of three calls. The last two are sampled. The first call of a
 * row is not, because it may set up connections, and the network's queues still have data of the
 * previous candidate. A candidate is dropped if its faster call takes more than twice as long as
 * the best one's faster call, and longer than the best one's slower call.
 *
 * LAST: each candidate that is left makes a row of four calls, with three samples. Candidates
 * within a quarter of the best one make further rows, up to 11 samples each. Calls vary widely if
 * the best candidate's quartiles differ by a factor of more than 1.5. Then it and the candidates
 * whose quartiles overlap its quartiles get up to 23 samples.
 *
 * SETTLED: calls take the best candidate, and two of them are sampled in each period. There are
 * trials of two other candidates (gloo tries single calls, see shim/gloo/draw.h):
 * - The next best one makes two calls, the second of which is sampled, in periods 1, 2, 4, 8, ...;
 *   and, at most eight times, in the period after one in which the best candidate has become slower
 *   than the next best one's latest duration.
 * - The native one, if it is not the best, makes a row of 2 to 16 calls in periods 1, 2, 4, 8, ...
 *   The second half of the row is sampled, because the network's queues may absorb a short row. The
 *   row is as long as costs 0.6 % of the time of the settled class so far; if not even two calls
 *   cost so little, there is no row after the first period. By these samples the report says what
 *   compressing saved.
 *
 * A period casts doubt on the choice if
 * - both samples of the best candidate exceed 1.5 times the upper quartile of its samples when it
 *   was learned, or one is below two thirds of the lower quartile; or
 * - it takes more than 1.05 times as long as the next best one took in this period's trial, both
 *   times their weights. Then the best one's duration is the median of its latest four samples,
 *   because some calls may be fast only because the network was idle before them; or the least of
 *   them, if calls varied widely when it was learned.
 * Learning that confirms the choice doubles the number of quiet periods, in which there is no
 * doubt, up to 64; another choice sets it to 1.
 *
 * Durations that a class stores:
 *
 *     learned    durations of each candidate in the latest learning; of the next best one, in its
 *                latest trial
 *     recent     latest four samples of the best candidate while it is settled
 *     steady     duration of each candidate when it was last the settled one. Candidates compare
 *                by it if it is longer than their samples: the network's queues may hold the
 *                messages of a row of trials, but not those of all calls. Forgotten after 128
 *                periods and checks, or if the network has become faster
 *     figures    latest durations; the length of native rows follows from the agreed ones, and the
 *                report from rank 0's own
 *
 * Pure: reads no clock and sends nothing. The same calls and the same agreed durations give the
 * same candidates on every rank. Not thread-safe: the calls of a class follow each other, or the
 * caller has a lock. */
#ifndef CSHIM_CHOICE_H
#define CSHIM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

/* Returns the number of the size class of `bytes` > 0. A class reaches from one power of the square
 * root of 2 to the next. */
uint32_t cshim_size_class(uint64_t bytes);
/* Returns the least number of bytes in a size class. Not for class 1, which contains no whole
 * number. */
uint64_t cshim_size_class_begin(uint32_t size_class);

/* Calls between two decisions of a settled class, except in the short period that checks the
 * previous one (gloo: see shim/gloo/draw.h). */
#define CSHIM_CHOICE_PERIOD 96u
/* Samples of each candidate that is not dropped while a class learns, and their maximum while its
 * calls vary widely. */
#define CSHIM_CHOICE_ROUNDS 5u
#define CSHIM_CHOICE_ROUNDS_MAX 23u
#define CSHIM_CHOICE_SAMPLES_MAX (CSHIM_CANDIDATES_MAX * CSHIM_CHOICE_ROUNDS_MAX)

#define CSHIM_CANDIDATE_NATIVE 0u
/* Maximum number of candidates: native, raw, and each algorithm except auto and cast. */
#define CSHIM_CANDIDATES_MAX ((unsigned)CSHIM_ALGORITHM_COUNT)
/* Number of the settled candidate's samples by which it is compared with the next best one. */
#define CSHIM_CHOICE_RECENT 4u
/* Number of durations of each candidate that are kept. */
#define CSHIM_FIGURES_LATEST 16u

/* Median and quartiles of durations in seconds. */
struct cshim_figure {
    float seconds, low, high;
};

/* The latest durations of each candidate: those that the ranks agreed on, and this rank's own of
 * the same calls. The agreed ones determine how many native calls a row has. From rank 0's own ones
 * the report estimates the native time of rank 0's calls. */
struct cshim_figures {
    /* Number of native calls in the longest row sampled so far. Samples of shorter rows are not
     * kept, because they are less like a native run. */
    unsigned longest_native_row;
    uint32_t samples[CSHIM_CANDIDATES_MAX]; /* number of durations added */
    /* The i-th duration added is at the index i % CSHIM_FIGURES_LATEST. */
    float latest[CSHIM_CANDIDATES_MAX][CSHIM_FIGURES_LATEST];
    float latest_own[CSHIM_CANDIDATES_MAX][CSHIM_FIGURES_LATEST];
    /* Figures by candidate, of the agreed durations and of this rank's own; zeros: unknown. */
    struct cshim_figure agreed[CSHIM_CANDIDATES_MAX], own[CSHIM_CANDIDATES_MAX];
};

enum cshim_choice_phase {
    CSHIM_CHOICE_FIRST,   /* each candidate has one call that is not sampled, then two that are */
    CSHIM_CHOICE_LAST,    /* each candidate left has one call that is not sampled, then three */
    CSHIM_CHOICE_SETTLED, /* calls take the best candidate */
    CSHIM_CHOICE_FIXED    /* calls take the prior: nothing is tried */
};

/* State of a class. Everything that a decision depends on is here, so that the ranks can be
 * compared. */
struct cshim_choice {
    enum cshim_choice_phase phase;
    unsigned candidates;
    unsigned prior;                      /* candidate of the first call */
    unsigned best;                       /* candidate of settled calls */
    unsigned next_best;                  /* candidate of a settled class's trials */
    float weights[CSHIM_CANDIDATES_MAX]; /* factors of the durations, see cshim_choice_init() */
    uint32_t call;                       /* calls begun since the latest decision */
    uint32_t calls_until_due;            /* calls from one decision to the next */
    uint32_t periods;                    /* periods since the class was settled, without checks */
    uint32_t quiet_periods;              /* periods until learning may start again */
    unsigned native_row; /* native calls in a row that the period tries, if it tries any */
    bool has_learned;    /* the class was settled before */
    unsigned rounds;     /* samples of each candidate in `turns` at the next decision */
    unsigned in_turn;    /* number of entries in `turns` */
    unsigned turns[CSHIM_CANDIDATES_MAX]; /* candidates to try, a row of calls each in turn */
    /* Median and quartiles of each candidate's samples in the latest learning; INFINITY before they
     * are known. A later trial of the next best candidate replaces its median. */
    struct cshim_figure learned[CSHIM_CANDIDATES_MAX];
    struct cshim_figures figures; /* the latest durations since learning began */
    bool tries; /* this period tries the next best candidate and, if native_row > 0, the native one;
                   in a check only gloo makes these trials */
    bool is_tried; /* the next best candidate was tried in this period or, in a check, in the one
                      before */
    unsigned suspicions; /* periods that tried the next best candidate because the best one had
                            become slower */
    /* Duration of each candidate when it was last the settled one; 0 if it was not recently. In the
     * long run calls may take longer than in a row of trials, whose messages fit in the network's
     * queues. */
    float steady[CSHIM_CANDIDATES_MAX];
    uint32_t steady_periods; /* periods and checks since `steady` was cleared */
    /* The settled candidate's latest samples, the oldest first: those of about two periods. */
    unsigned recent_samples;
    float recent[CSHIM_CHOICE_RECENT];
    bool is_check; /* this period is short: it checks whether the previous one was disturbed */
    /* Samples since learning, or this period, began: their candidates and durations in seconds.
     * INFINITY stands for a duration that this rank does not know. */
    unsigned samples;
    unsigned sampled[CSHIM_CHOICE_SAMPLES_MAX];
    float seconds[CSHIM_CHOICE_SAMPLES_MAX];
    /* This rank's durations of the same samples, which stay when the ranks agree. */
    float own[CSHIM_CHOICE_SAMPLES_MAX];
    bool is_sampled; /* the call begun last is sampled: the ranks should begin it together */
};

/* Starts a class of 2 to CSHIM_CANDIDATES_MAX candidates. Its first call takes candidate `prior`.
 * Slow candidates are dropped after the first row by their durations alone. Otherwise candidates
 * compare by their durations times their weights: one that rounds more than twice has to gain more.
 */
void cshim_choice_init(struct cshim_choice *choice, unsigned candidates, unsigned prior,
                       const float *weights);

/* Starts a class whose calls all take candidate `prior`. No decision is ever due. */
void cshim_choice_fix(struct cshim_choice *choice, unsigned candidates, unsigned prior);

/* Returns true if the ranks have to agree on the samples' durations before the next call. */
static inline bool cshim_choice_is_due(const struct cshim_choice *choice)
{
    return choice->call == choice->calls_until_due;
}

/* Returns true if calls have a best candidate by what was measured, or a fixed one. */
static inline bool cshim_choice_is_made(const struct cshim_choice *choice)
{
    return choice->phase == CSHIM_CHOICE_SETTLED || choice->phase == CSHIM_CHOICE_FIXED;
}

/* Decides by durations that are equal on all ranks. The choice must be due or, if its samples come
 * from cshim_choice_learn(), have enough of them. */
void cshim_choice_decide(struct cshim_choice *choice);

/* Begins a call and returns its candidate. The choice must not be due. */
unsigned cshim_choice_begin(struct cshim_choice *choice);

/* If calls take the native candidate by a choice that is made, and the next call is neither sampled
 * nor a trial, and no decision is due: begins that call and returns true. Otherwise begins nothing
 * and returns false. */
bool cshim_choice_passes(struct cshim_choice *choice);

/* Ends the call that was begun last, with this rank's duration in seconds. A call that is left by
 * longjmp() never ends: its duration stays unknown. */
void cshim_choice_end(struct cshim_choice *choice, double seconds);

/* Adds a sample of a candidate, in agreed seconds and this rank's `own`, unless the candidate has
 * choice->rounds samples already. For classes whose calls follow no order (shim/gloo/draw.h), where
 * rank 0 decides alone. */
void cshim_choice_learn(struct cshim_choice *choice, unsigned candidate, float seconds, float own);
/* Returns the number of a candidate's samples since learning, or this period, began. */
unsigned cshim_choice_samples_of(const struct cshim_choice *choice, unsigned candidate);

#endif
