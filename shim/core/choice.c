/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/choice.h"

#include <math.h>
#include <string.h>

#include "codecs/arithmetic.h"

uint32_t cshim_size_class(uint64_t bytes)
{
    const uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes);
    const unsigned __int128 square = (unsigned __int128)bytes * bytes;
    return 2 * log + (square >> (2 * log + 1) != 0);
}

uint64_t cshim_size_class_begin(uint32_t size_class)
{
    uint64_t bytes = (uint64_t)1 << size_class / 2;
    if (size_class % 2 == 0)
        return bytes;
    for (uint64_t step = bytes / 2; step > 0; step /= 2) /* largest size below the class */
        if (cshim_size_class(bytes + step) < size_class)
            bytes += step;
    return bytes + 1;
}

/* Consecutive calls of a candidate in its first row; the first of them is not sampled. After the
 * first rows of all candidates, those that are clearly slower are dropped. */
#define FIRST_ROW 3u
#define LAST_ROW (CSHIM_CHOICE_ROUNDS - (FIRST_ROW - 1) + 1)
#define CLEARLY_OUT 2.0f
/* Candidates within this factor of the best one are sampled further. */
#define CLOSE 1.25f
/* Maximum samples of each candidate that is sampled further, unless the network is unsteady: the
 * upper quartile of the best candidate's samples exceeds the lower one by more than the factor
 * UNSTEADY. */
#define ROUNDS_IF_STEADY 11u
#define UNSTEADY 1.5f
/* A row of LAST_ROW calls has three samples. All numbers of samples in this assertion leave the
 * remainder 2 when divided by 3, and so does twice such a number plus one: any two of them differ
 * by whole rows. */
_Static_assert(LAST_ROW - 1 == 3 && CSHIM_CHOICE_ROUNDS % 3 == 2 && ROUNDS_IF_STEADY % 3 == 2 &&
                   CSHIM_CHOICE_ROUNDS_MAX % 3 == 2,
               "whole rows");
/* A settled class is sampled at the last call of a period and at the call SAMPLE_DISTANCE before
 * it. Earlier in the period, from call FIRST_TRIAL on, it tries a row of the next best candidate,
 * then a row of the native one. */
#define SAMPLE_DISTANCE 16u
/* Number of calls in a check, the short period that checks the previous one: two samples, no
 * trial. */
#define CHECK_PERIOD (SAMPLE_DISTANCE + 1)
#define FIRST_TRIAL 49u
#define TRIAL_ROW 2u
#define FIRST_NATIVE_TRIAL (FIRST_TRIAL + TRIAL_ROW)
#define NATIVE_ROW_MAX 16u
_Static_assert(FIRST_NATIVE_TRIAL + NATIVE_ROW_MAX < CSHIM_CHOICE_PERIOD - SAMPLE_DISTANCE,
               "trials");
/* Share of a settled class's time so far that a row of native calls may cost. */
#define NATIVE_TRIALS_COST 0.006
/* Factor above the upper quartile, or below the lower one, beyond which a duration shows that the
 * network has changed. */
#define CHANGED 1.5f
/* The next best candidate overtakes the best one if it is faster by more than this factor, as
 * compared by weighted durations. */
#define OVERTAKES 1.05f
#define QUIET_PERIODS_MAX 64u
/* Maximum number of extra trials of the next best candidate while a class is settled, made because
 * the best candidate has become slower. */
#define SUSPICIONS_MAX 8u
/* Number of periods and checks after which the durations of settled candidates are forgotten. */
#define STEADY_PERIODS_MAX 128u

static const struct cshim_figure unknown = {INFINITY, INFINITY, INFINITY};

static void start_period(struct cshim_choice *choice, uint32_t calls)
{
    choice->call = 0;
    choice->calls_until_due = calls;
}

/* Starts to try all candidates in turn, the prior first. */
static void start_learning(struct cshim_choice *choice)
{
    choice->phase = CSHIM_CHOICE_FIRST;
    choice->samples = 0;
    choice->rounds = FIRST_ROW - 1;
    choice->is_check = false;
    choice->in_turn = choice->candidates;
    for (unsigned i = 0; i < choice->candidates; i++)
        choice->turns[i] = (choice->prior + i) % choice->candidates;
    start_period(choice, FIRST_ROW * choice->in_turn);
}

void cshim_choice_init(struct cshim_choice *choice, unsigned candidates, unsigned prior,
                       const float *weights)
{
    *choice = (struct cshim_choice){
        .candidates = candidates, .prior = prior, .best = prior, .quiet_periods = 1};
    for (unsigned i = 0; i < CSHIM_CANDIDATES_MAX; i++) {
        choice->learned[i] = unknown;
        choice->weights[i] = i < candidates ? weights[i] : 1;
    }
    start_learning(choice);
}

void cshim_choice_fix(struct cshim_choice *choice, unsigned candidates, unsigned prior)
{
    *choice = (struct cshim_choice){.phase = CSHIM_CHOICE_FIXED,
                                    .candidates = candidates,
                                    .prior = prior,
                                    .best = prior,
                                    .calls_until_due = 1};
    for (unsigned i = 0; i < CSHIM_CANDIDATES_MAX; i++)
        choice->learned[i] = unknown;
}

/* Returns the candidate of the next call, and whether it is sampled. In a row of calls of one
 * candidate the first ones are not sampled. */
static unsigned next_call(const struct cshim_choice *choice, bool *is_sampled)
{
    const uint32_t row = choice->phase == CSHIM_CHOICE_FIRST ? FIRST_ROW : LAST_ROW;
    const uint32_t left = choice->calls_until_due - choice->call;
    const bool tries = choice->tries && !choice->is_check;
    const uint32_t trial = choice->call - FIRST_TRIAL;
    const uint32_t native_trial = choice->call - FIRST_NATIVE_TRIAL;
    if (choice->phase != CSHIM_CHOICE_SETTLED) {
        *is_sampled = choice->call % row > 0;
        return choice->turns[choice->call / row % choice->in_turn];
    }
    if (tries && trial < TRIAL_ROW) {
        *is_sampled = trial >= TRIAL_ROW / 2;
        return choice->next_best;
    }
    if (tries && native_trial < choice->native_row) {
        *is_sampled = native_trial >= choice->native_row / 2;
        return CSHIM_CANDIDATE_NATIVE;
    }
    *is_sampled = left == 1 || left == 1 + SAMPLE_DISTANCE;
    return choice->best;
}

unsigned cshim_choice_begin(struct cshim_choice *choice)
{
    if (choice->phase == CSHIM_CHOICE_FIXED)
        return choice->best;
    const unsigned candidate = next_call(choice, &choice->is_sampled);
    if (choice->is_sampled) {
        choice->sampled[choice->samples] = candidate;
        choice->seconds[choice->samples] = choice->own[choice->samples] = INFINITY;
        choice->samples++;
    }
    choice->call++;
    return candidate;
}

bool cshim_choice_passes(struct cshim_choice *choice)
{
    bool is_sampled;
    if (!cshim_choice_is_made(choice) || choice->best != CSHIM_CANDIDATE_NATIVE)
        return false;
    if (choice->phase == CSHIM_CHOICE_FIXED)
        return true;
    if (cshim_choice_is_due(choice) || next_call(choice, &is_sampled) != choice->best || is_sampled)
        return false;
    choice->is_sampled = false;
    choice->call++;
    return true;
}

void cshim_choice_end(struct cshim_choice *choice, double seconds)
{
    if (choice->is_sampled)
        choice->seconds[choice->samples - 1] = choice->own[choice->samples - 1] = (float)seconds;
}

/* Inserts a duration into `count` sorted ones, which have room for one more. */
static void insert_sorted(float *sorted, unsigned count, float seconds)
{
    for (; count > 0 && sorted[count - 1] > seconds; count--)
        sorted[count] = sorted[count - 1];
    sorted[count] = seconds;
}

/* Returns the median of `count` > 0 sorted durations; of an even number, the lower of the two
 * middle ones, because disturbances only lengthen calls. */
static float median_of_sorted(const float *sorted, unsigned count)
{
    return sorted[(count - 1) / 2];
}

/* Returns median and quartiles of `count` > 0 sorted durations, times the factor `longer`. */
static struct cshim_figure figure_of(const float *sorted, unsigned count, float longer)
{
    const float seconds = longer * median_of_sorted(sorted, count);
    return (struct cshim_figure){
        .seconds = seconds,
        .low = fminf(longer * sorted[count / 4], seconds),
        .high = fmaxf(longer * sorted[count - 1 - count / 4], seconds),
    };
}

/* Returns the factor by which a candidate's calls take longer in the long run than `count` > 0
 * sorted durations: 1 if it was not settled recently, or was no slower then. */
static float lengthening(const struct cshim_choice *choice, unsigned candidate, const float *sorted,
                         unsigned count)
{
    const float median = median_of_sorted(sorted, count);
    return median > 0 ? fmaxf(choice->steady[candidate] / median, 1) : 1;
}

/* Adds the durations of a sample to the latest ones of its candidate. */
static void add_duration(struct cshim_figures *figures, unsigned candidate, float agreed, float own)
{
    const uint32_t place = figures->samples[candidate]++ % CSHIM_FIGURES_LATEST;
    figures->latest[candidate][place] = agreed;
    figures->latest_own[candidate][place] = own;
}

/* Computes the figures of a candidate. */
static void update_figure(struct cshim_choice *choice, unsigned candidate)
{
    struct cshim_figures *figures = &choice->figures;
    float agreed[CSHIM_FIGURES_LATEST], own[CSHIM_FIGURES_LATEST];
    unsigned count = 0;
    for (; count < figures->samples[candidate] && count < CSHIM_FIGURES_LATEST; count++) {
        insert_sorted(agreed, count, figures->latest[candidate][count]);
        insert_sorted(own, count, figures->latest_own[candidate][count]);
    }
    const struct cshim_figure none = {0, 0, 0};
    const float longer = count > 0 ? lengthening(choice, candidate, agreed, count) : 1;
    figures->agreed[candidate] = count > 0 ? figure_of(agreed, count, longer) : none;
    figures->own[candidate] = count > 0 ? figure_of(own, count, longer) : none;
}

static void update_figures(struct cshim_choice *choice)
{
    for (unsigned i = 0; i < choice->candidates; i++)
        update_figure(choice, i);
}

/* Sorts the agreed durations of a candidate's samples, as far as they are known. Returns their
 * number, which is equal on all ranks. */
static unsigned sort_samples(const struct cshim_choice *choice, unsigned candidate,
                             float sorted[CSHIM_CHOICE_SAMPLES_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < choice->samples; i++) {
        if (choice->sampled[i] != candidate || !isfinite(choice->seconds[i]))
            continue;
        insert_sorted(sorted, count++, choice->seconds[i]);
    }
    return count;
}

/* Returns the median of a candidate's samples, or INFINITY if there are none. */
static float median_of(const struct cshim_choice *choice, unsigned candidate)
{
    float sorted[CSHIM_CHOICE_SAMPLES_MAX];
    const unsigned count = sort_samples(choice, candidate, sorted);
    return count > 0 ? median_of_sorted(sorted, count) : INFINITY;
}

/* Adds the samples to the latest durations of their candidates; leaves out native ones if
 * `but_native`.
 */
static void keep_samples(struct cshim_choice *choice, bool but_native)
{
    for (unsigned i = 0; i < choice->samples; i++) {
        const unsigned candidate = choice->sampled[i];
        if (isfinite(choice->seconds[i]) && !(but_native && candidate == CSHIM_CANDIDATE_NATIVE))
            add_duration(&choice->figures, candidate, choice->seconds[i], choice->own[i]);
    }
}

/* Updates each candidate's durations and quartiles from all samples since learning began. */
static void take_samples(struct cshim_choice *choice)
{
    memset(choice->figures.samples, 0, sizeof choice->figures.samples);
    keep_samples(choice, false);
    choice->figures.longest_native_row =
        choice->figures.samples[CSHIM_CANDIDATE_NATIVE] < FIRST_ROW ? TRIAL_ROW : LAST_ROW;
    update_figures(choice);
    for (unsigned i = 0; i < choice->candidates; i++) {
        float sorted[CSHIM_CHOICE_SAMPLES_MAX];
        const unsigned count = sort_samples(choice, i, sorted);
        choice->learned[i] =
            count > 0 ? figure_of(sorted, count, lengthening(choice, i, sorted, count)) : unknown;
    }
}

/* Returns a candidate's duration times its weight, by which candidates compare. */
static float weighted(const struct cshim_choice *choice, unsigned candidate)
{
    return choice->weights[candidate] * choice->learned[candidate].seconds;
}

/* Returns the fastest of the candidates whose bits are set in `among`; of equally fast ones the
 * first. */
static unsigned fastest_of(const struct cshim_choice *choice, unsigned among)
{
    unsigned fastest = 0;
    for (unsigned i = 0; i < choice->candidates; i++)
        if ((among >> i & 1) != 0 &&
            ((among >> fastest & 1) == 0 || weighted(choice, i) < weighted(choice, fastest)))
            fastest = i;
    return fastest;
}

/* Starts `rows` further rows of calls of each candidate in `turns` whose bit is set in `kept`.
 * Drops the other candidates. */
static void sample_further(struct cshim_choice *choice, unsigned kept, unsigned rows)
{
    unsigned left = 0;
    for (unsigned i = 0; i < choice->in_turn; i++)
        if ((kept >> choice->turns[i] & 1) != 0)
            choice->turns[left++] = choice->turns[i];
    choice->in_turn = left;
    choice->rounds += rows * (LAST_ROW - 1);
    choice->phase = CSHIM_CHOICE_LAST;
    start_period(choice, rows * LAST_ROW * left);
}

/* Drops candidates that are clearly slower than the best one. */
static void drop_slow(struct cshim_choice *choice)
{
    unsigned best = 0, kept = 0;
    take_samples(choice);
    for (unsigned i = 1; i < choice->candidates; i++)
        best = choice->learned[i].seconds < choice->learned[best].seconds ? i : best;
    const float slowest =
        fmaxf(CLEARLY_OUT * choice->learned[best].seconds, choice->learned[best].high);
    for (unsigned i = 0; i < choice->candidates; i++)
        kept |= (unsigned)(choice->learned[i].seconds <= slowest) << i;
    sample_further(choice, kept, 1);
}

/* Returns true if the best candidate's samples varied widely while it was learned. */
static bool is_unsteady(const struct cshim_choice *choice)
{
    const struct cshim_figure *best = &choice->learned[choice->best];
    return best->high > UNSTEADY * best->low;
}

/* Sets the bits of the candidates to sample further: the best one, and those in `turns` that may
 * prove faster. Returns the number of further rows; 0 if only the best one is left, or if all have
 * had their maximum of samples. */
static unsigned find_contenders(const struct cshim_choice *choice, unsigned *kept)
{
    const unsigned best = choice->best;
    const bool unsteady = is_unsteady(choice);
    *kept = 0;
    for (unsigned i = 0; i < choice->in_turn; i++) {
        const unsigned candidate = choice->turns[i];
        const float low = choice->weights[candidate] * choice->learned[candidate].low;
        if (weighted(choice, candidate) <= CLOSE * weighted(choice, best) ||
            (unsteady && low <= choice->weights[best] * choice->learned[best].high))
            *kept |= 1u << candidate;
    }
    const unsigned most = unsteady ? CSHIM_CHOICE_ROUNDS_MAX : ROUNDS_IF_STEADY;
    const unsigned next = unsteady ? 2 * choice->rounds + 1 : choice->rounds + LAST_ROW - 1;
    if ((*kept & ~(1u << best)) == 0 || choice->rounds >= most)
        return 0;
    return ((next < most ? next : most) - choice->rounds) / (LAST_ROW - 1);
}

/* Returns the length of the row of native calls that the next period of a settled class tries: as
 * many as may be spent (NATIVE_TRIALS_COST), at most NATIVE_ROW_MAX, and 0 instead of fewer than
 * TRIAL_ROW. The first period tries at least TRIAL_ROW, unless the native candidate is the next
 * best, which is tried anyway. Returns 0 if the native candidate is the best. */
static unsigned native_row_of(const struct cshim_choice *choice)
{
    const double best = (double)choice->figures.agreed[choice->best].seconds;
    const double native = (double)choice->figures.agreed[CSHIM_CANDIDATE_NATIVE].seconds;
    const double may_cost = NATIVE_TRIALS_COST * (choice->periods + 1) * CSHIM_CHOICE_PERIOD * best;
    if (choice->best == CSHIM_CANDIDATE_NATIVE)
        return 0;
    if (native > 0 && NATIVE_ROW_MAX * (native - best) <= may_cost)
        return NATIVE_ROW_MAX;
    if (native > 0 && TRIAL_ROW * (native - best) <= may_cost)
        return (unsigned)(may_cost / (native - best));
    const bool is_tried = choice->next_best == CSHIM_CANDIDATE_NATIVE;
    return choice->periods == 0 && !is_tried ? TRIAL_ROW : 0;
}

/* Starts a period of a settled class. Periods 1, 2, 4, 8, ... try the next best and the native
 * candidate. Other periods try only the next best one, at most SUSPICIONS_MAX times, if
 * `is_suspect`: the best one has become slower than the next best. */
static void start_settled_period(struct cshim_choice *choice, bool is_check, bool is_suspect)
{
    const uint32_t period = choice->periods + 1;
    const bool is_due = (period & (period - 1)) == 0;
    if (!is_check)
        choice->next_best =
            fastest_of(choice, ((1u << choice->candidates) - 1) & ~(1u << choice->best));
    choice->is_check = is_check;
    choice->tries = is_due || (is_suspect && choice->suspicions < SUSPICIONS_MAX);
    choice->suspicions += choice->tries && !is_due && !is_check;
    choice->native_row = is_due ? native_row_of(choice) : 0;
    choice->samples = 0;
    start_period(choice, is_check ? CHECK_PERIOD : CSHIM_CHOICE_PERIOD);
}

/* Settles on the fastest candidate that was not dropped, unless others may prove faster if they are
 * sampled further. */
static void settle_class(struct cshim_choice *choice)
{
    const unsigned former = choice->best;
    unsigned in_turn = 0, kept;
    take_samples(choice);
    for (unsigned i = 0; i < choice->in_turn; i++)
        in_turn |= 1u << choice->turns[i];
    choice->best = fastest_of(choice, in_turn);
    const unsigned rows = find_contenders(choice, &kept);
    if (rows > 0) {
        choice->best = former;
        sample_further(choice, kept, rows);
        return;
    }
    const bool is_confirmed = choice->has_learned && choice->best == former;
    choice->quiet_periods = !is_confirmed                               ? 1
                            : choice->quiet_periods < QUIET_PERIODS_MAX ? 2 * choice->quiet_periods
                                                                        : QUIET_PERIODS_MAX;
    choice->has_learned = true;
    choice->phase = CSHIM_CHOICE_SETTLED;
    choice->periods = 0;
    choice->recent_samples = 0;
    choice->suspicions = 0;
    start_settled_period(choice, false, false);
}

/* Returns true if a duration of the settled candidate shows that the network has become faster. */
static bool is_faster(const struct cshim_choice *choice, float now)
{
    return CHANGED * now < choice->learned[choice->best].low;
}

/* Returns true if a duration of the settled candidate shows that the network has become slower. */
static bool is_slower(const struct cshim_choice *choice, float now)
{
    return now > CHANGED * choice->learned[choice->best].high;
}

/* Adds the period's samples of the settled candidate to its recent ones. */
static void keep_recent(struct cshim_choice *choice)
{
    for (unsigned i = 0; i < choice->samples; i++) {
        if (choice->sampled[i] != choice->best || !isfinite(choice->seconds[i]))
            continue;
        if (choice->recent_samples == CSHIM_CHOICE_RECENT)
            memmove(choice->recent, choice->recent + 1,
                    --choice->recent_samples * sizeof *choice->recent);
        choice->recent[choice->recent_samples++] = choice->seconds[i];
    }
}

/* Returns the median of the settled candidate's recent samples (of an even number, the lower of the
 * two middle ones). There must be at least one. If calls varied widely during learning, returns the
 * least sample instead, because the median of so few says little. */
static float recent_seconds(const struct cshim_choice *choice)
{
    float sorted[CSHIM_CHOICE_RECENT] = {0};
    for (unsigned i = 0; i < choice->recent_samples; i++)
        insert_sorted(sorted, i, choice->recent[i]);
    return sorted[is_unsteady(choice) ? 0 : (choice->recent_samples - 1) / 2];
}

/* Returns true if the next best candidate's latest duration, or its steady one if that is longer,
 * times its weight and OVERTAKES, is below the best one's recent duration times its weight. */
static bool is_overtaken(const struct cshim_choice *choice)
{
    const unsigned next = choice->next_best;
    const float other = fmaxf(choice->learned[next].seconds, choice->steady[next]);
    return OVERTAKES * choice->weights[next] * other <
           choice->weights[choice->best] * recent_seconds(choice);
}

/* Returns true if most of the settled candidate's recent samples show that the network has become
 * faster. */
static bool is_mostly_faster(const struct cshim_choice *choice)
{
    unsigned faster = 0;
    for (unsigned i = 0; i < choice->recent_samples; i++)
        faster += is_faster(choice, choice->recent[i]);
    return faster > CSHIM_CHOICE_RECENT / 2;
}

/* Stores the settled candidate's recent duration as its steady one. First clears the steady
 * durations of all candidates if more than STEADY_PERIODS_MAX periods and checks have passed since
 * they were last cleared, or if the network has become faster. */
static void keep_steady(struct cshim_choice *choice)
{
    if (++choice->steady_periods > STEADY_PERIODS_MAX || is_mostly_faster(choice)) {
        memset(choice->steady, 0, sizeof choice->steady);
        choice->steady_periods = 0;
    }
    if (choice->recent_samples == CSHIM_CHOICE_RECENT)
        choice->steady[choice->best] = recent_seconds(choice);
}

/* Returns the number of native calls in a row that were tried in the period that ends. gloo's calls
 * form no rows, and do not advance choice->call. */
static unsigned tried_native_row(const struct cshim_choice *choice)
{
    const bool was_next_best = choice->next_best == CSHIM_CANDIDATE_NATIVE;
    if (choice->call < FIRST_NATIVE_TRIAL || choice->is_check || !choice->tries ||
        choice->best == CSHIM_CANDIDATE_NATIVE)
        return 0;
    return (was_next_best ? TRIAL_ROW : 0) + choice->native_row;
}

/* Adds a period's samples to the latest durations. The longer a row of native calls, the more it is
 * like a native run: the longest one replaces earlier native samples, and shorter ones do not
 * count.
 */
static void keep_period(struct cshim_choice *choice)
{
    const unsigned row = tried_native_row(choice);
    if (row > choice->figures.longest_native_row &&
        isfinite(median_of(choice, CSHIM_CANDIDATE_NATIVE))) {
        choice->figures.longest_native_row = row;
        choice->figures.samples[CSHIM_CANDIDATE_NATIVE] = 0;
    }
    keep_samples(choice, row > 0 && row < choice->figures.longest_native_row);
    update_figures(choice);
}

/* Ends a period or a check of a settled class: keeps its samples, and looks for doubt.
 *
 *     in doubt    in a period    in a check
 *     no          next period    next period
 *     yes         check          learning
 *
 * `now` is the faster of the best candidate's two samples, so that one slow call casts no doubt. If
 * `now` is unknown, and in quiet periods, there is neither doubt nor suspicion that the best
 * candidate has become slower than the next best. Checks do not count as periods. */
static void end_period(struct cshim_choice *choice)
{
    const float now = median_of(choice, choice->best);
    const float tried = median_of(choice, choice->next_best);
    const bool was_check = choice->is_check;
    keep_period(choice);
    keep_recent(choice);
    choice->periods += !was_check;
    if (isfinite(tried))
        choice->learned[choice->next_best].seconds = tried;
    choice->is_tried = isfinite(tried) || (was_check && choice->is_tried);
    if (isfinite(now))
        keep_steady(choice);
    const bool may_doubt = isfinite(now) && choice->periods >= choice->quiet_periods;
    const bool overtaken = may_doubt && is_overtaken(choice);
    const bool is_doubtful = may_doubt && (is_faster(choice, now) || is_slower(choice, now) ||
                                           (overtaken && choice->is_tried));
    if (is_doubtful && was_check) {
        start_learning(choice);
        return;
    }
    start_settled_period(choice, is_doubtful, overtaken);
}

static CSHIM_APART void decide(struct cshim_choice *choice)
{
    if (choice->phase == CSHIM_CHOICE_FIRST)
        drop_slow(choice);
    else if (choice->phase == CSHIM_CHOICE_LAST)
        settle_class(choice);
    else
        end_period(choice);
}

/* Decides in the default floating-point environment: all ranks must make the same choice, whatever
 * environment the program has set. */
void cshim_choice_decide(struct cshim_choice *choice)
{
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    decide(choice);
    cshim_arithmetic_end(&programs);
}

void cshim_choice_learn(struct cshim_choice *choice, unsigned candidate, float seconds, float own)
{
    if (cshim_choice_samples_of(choice, candidate) >= choice->rounds)
        return;
    choice->sampled[choice->samples] = candidate;
    choice->seconds[choice->samples] = seconds;
    choice->own[choice->samples++] = own;
}

unsigned cshim_choice_samples_of(const struct cshim_choice *choice, unsigned candidate)
{
    unsigned samples = 0;
    for (unsigned i = 0; i < choice->samples; i++)
        samples += choice->sampled[i] == candidate;
    return samples;
}
