/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/classes.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "codecs/arithmetic.h"
#include "shim/core/log.h"

bool cshim_classes_reserve(struct cshim_class **classes, const struct cshim_policy *policy,
                           enum cshim_library library)
{
    bool is_needed = false;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        is_needed |= rule->worth != CSHIM_WORTH_ALWAYS && rule->codec != CSHIM_CODEC_NONE &&
                     (rule->libraries >> library & 1) != 0 &&
                     (rule->collectives >> CSHIM_ALLREDUCE & 1) != 0;
    }
    if (is_needed)
        *classes = calloc(CSHIM_CLASSES_MAX, sizeof **classes);
    return !is_needed || *classes != NULL;
}

_Static_assert(CSHIM_CANDIDATES_MAX > CSHIM_PLAN_CANDIDATES_MAX, "native is a candidate, too");

bool cshim_class_has(const struct cshim_class *class, const struct cshim_rule *rule,
                     enum cshim_op op, const struct cshim_learned_choice *key)
{
    return class->rule == rule && class->op == op && cshim_learned_is_same_class(&class->key, key);
}

/* Returns the weight of a compressed candidate's duration. Compressing must gain a tenth, and each
 * rounding beyond the usual two another twentieth. */
static CSHIM_APART float weight_of(unsigned roundings)
{
    float weight = 1 / (1 - (float)CSHIM_WORTH);
    for (; roundings > 2 && weight < 1e6f; roundings--)
        weight /= 0.95f;
    return weight;
}

/* Finds the candidate that an earlier job has chosen for a class. Returns false if that job has
 * chosen none, or one that is no candidate now. */
static bool find_learned(const struct cshim_class *class, unsigned candidates,
                         const struct cshim_learned *learned, unsigned *candidate)
{
    const struct cshim_learned_choice *choice = cshim_learned_find(learned, &class->key);
    if (choice == NULL)
        return false;
    if (choice->is_native)
        *candidate = CSHIM_CANDIDATE_NATIVE;
    for (unsigned i = 1; i < candidates && !choice->is_native; i++)
        if (class->algorithms[i] == choice->algorithm && class->codecs[i] == choice->codec) {
            *candidate = i;
            return true;
        }
    return choice->is_native;
}

/* Returns the smallest call of a class. The class's candidates and their order are those of this
 * call, because with gloo each rank may start the class with another of its calls. */
static struct cshim_call least_call(const struct cshim_class *class, const struct cshim_call *call)
{
    struct cshim_call least = *call;
    const uint64_t element = cshim_dtype_bytes(call->dtype);
    const uint64_t count = (cshim_size_class_begin(class->key.size_class) + element - 1) / element;
    least.bytes = count * element;
    return least;
}

bool cshim_class_start(struct cshim_class *class, const struct cshim_learned *learned,
                       const struct cshim_rule *rule, const struct cshim_call *call)
{
    struct cshim_plan_candidate found[CSHIM_PLAN_CANDIDATES_MAX];
    float weights[CSHIM_CANDIDATES_MAX] = {1};
    struct cshim_class started = {
        .rule = rule, .op = call->op, .key = cshim_learned_key(rule, call)};
    const struct cshim_call least = least_call(&started, call);
    const unsigned compressed =
        cshim_plan_candidates(rule, &least, least.bytes / cshim_dtype_bytes(call->dtype), found);
    if (compressed == 0)
        return false;
    unsigned prior = cshim_plan_is_native_first(rule, &least) ? CSHIM_CANDIDATE_NATIVE
                                                              : CSHIM_CANDIDATE_NATIVE + 1;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    for (unsigned i = 0; i < compressed; i++) {
        started.algorithms[i + 1] = found[i].algorithm;
        started.codecs[i + 1] = found[i].codec;
        weights[i + 1] = weight_of(found[i].roundings);
    }
    cshim_arithmetic_end(&programs);
    if (learned == NULL) {
        cshim_choice_init(&started.choice, compressed + 1, prior, weights);
    } else {
        if (!find_learned(&started, compressed + 1, learned, &prior))
            started.algorithms[CSHIM_CANDIDATE_NATIVE + 1] =
                CSHIM_ALGORITHM_AUTO; /* no learned choice: chosen for each call */
        cshim_choice_fix(&started.choice, compressed + 1, prior);
    }
    *class = started;
    return true;
}

/* Returns the entry of a class: its own, a free one, or NULL if none is free. */
static struct cshim_class *find_entry(struct cshim_class *classes, const struct cshim_rule *rule,
                                      const struct cshim_call *call)
{
    const struct cshim_learned_choice key = cshim_learned_key(rule, call);
    for (unsigned i = 0; classes != NULL && i < CSHIM_CLASSES_MAX; i++)
        if (classes[i].rule == NULL || cshim_class_has(&classes[i], rule, call->op, &key))
            return &classes[i];
    return NULL;
}

struct cshim_class *cshim_class_find(struct cshim_class *classes,
                                     const struct cshim_learned *learned,
                                     const struct cshim_rule *rule, const struct cshim_call *call)
{
    struct cshim_class *class = find_entry(classes, rule, call);
    if (class != NULL && class->rule == NULL && !cshim_class_start(class, learned, rule, call))
        return NULL;
    return class;
}

void cshim_class_set_instead(const struct cshim_class *class, unsigned candidate,
                             struct cshim_call *call)
{
    if (class->codecs[candidate] != class->rule->codec)
        call->instead = class->codecs[candidate];
}

struct cshim_plan cshim_class_plan_candidate(const struct cshim_class *class, unsigned candidate,
                                             const struct cshim_call *call, uint64_t count)
{
    if (candidate == CSHIM_CANDIDATE_NATIVE)
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_GAIN, .rule = class->rule};
    struct cshim_call chosen = *call;
    cshim_class_set_instead(class, candidate, &chosen);
    return cshim_plan_call_by(class->algorithms[candidate], class->rule, &chosen, count);
}

struct cshim_plan cshim_class_plan(struct cshim_class *classes, const struct cshim_learned *learned,
                                   const struct cshim_policy *policy, const struct cshim_rule *rule,
                                   const struct cshim_call *call, uint64_t count)
{
    struct cshim_class unmeasured; /* class of this call if no timed call has started it; its choice
                                      is an earlier job's */
    const bool is_for = cshim_class_is_for(rule, call);
    struct cshim_class *class = is_for ? find_entry(classes, rule, call) : NULL;
    if (class == NULL || class->rule == NULL)
        class = is_for && learned != NULL && cshim_class_start(&unmeasured, learned, rule, call)
                    ? &unmeasured
                    : NULL;
    const unsigned best = class != NULL ? class->choice.best : CSHIM_CANDIDATE_NATIVE;
    const bool is_known =
        class != NULL && cshim_choice_is_made(&class->choice) &&
        (best == CSHIM_CANDIDATE_NATIVE || cshim_plan_can(call, class->algorithms[best]));
    return is_known ? cshim_class_plan_candidate(class, best, call, count)
                    : cshim_plan_call(policy, call, count);
}

/* Adds figures to the ledger's row of a candidate. */
static void add_figures(const struct cshim_class *class, struct cshim_ledger *ledger,
                        unsigned candidate, const struct cshim_row *figures)
{
    const struct cshim_plan row = {
        .rule = class->rule,
        .collective = CSHIM_ALLREDUCE,
        .dtype = class->key.dtype,
        .algorithm = class->algorithms[candidate],
        .codec = class->codecs[candidate],
    };
    cshim_ledger_add(ledger, &row, figures);
}

/* Counts the calls of a class, on rank 0, once the native duration is known. Counts native calls in
 * the row of the first compressed candidate. The estimated native time of a candidate's calls is
 * the time that they took plus, for each call, the native duration minus the candidate's. These are
 * rank 0's own durations of sampled calls, because the time that the calls took is rank 0's, too.
 * NCCL does not time most calls: there the time is the candidate's duration for each call. The
 * native duration is also the time of each native call that was not timed. With MPI and gloo, the
 * time contains waiting for ranks that come late; the durations do not. */
void cshim_class_count(struct cshim_class *class, struct cshim_ledger *ledger)
{
    const struct cshim_figure *of = class->choice.figures.own;
    const struct cshim_figure native = of[CSHIM_CANDIDATE_NATIVE];
    if (ledger == NULL || native.seconds <= 0)
        return;
    class->uncounted[CSHIM_CANDIDATE_NATIVE].calls += class->untimed;
    class->uncounted[CSHIM_CANDIDATE_NATIVE].seconds +=
        (double)class->untimed * (double)native.seconds;
    class->untimed = 0;
    for (unsigned i = 0; i < class->choice.candidates; i++) {
        const uint64_t calls = class->uncounted[i].calls;
        const double seconds = cshim_capabilities[class->key.library].on_device
                                   ? (double)calls * (double)of[i].seconds
                                   : class->uncounted[i].seconds;
        const double compared = of[i].seconds > 0 ? (double)calls : 0;
        const struct cshim_row native_calls = {.native_calls = calls, .seconds_native = seconds};
        const struct cshim_row compressed_calls = {
            .compared_calls = calls,
            .seconds_compared = seconds,
            .seconds_native_estimate =
                fmax(0, seconds + compared * ((double)native.seconds - (double)of[i].seconds)),
            .seconds_native_low =
                fmax(0, seconds + compared * ((double)native.low - (double)of[i].high)),
            .seconds_native_high =
                fmax(0, seconds + compared * ((double)native.high - (double)of[i].low)),
        };
        if (calls > 0 && i == CSHIM_CANDIDATE_NATIVE)
            add_figures(class, ledger, i + 1, &native_calls);
        else if (calls > 0)
            add_figures(class, ledger, i, &compressed_calls);
        class->uncounted[i].calls = 0;
        class->uncounted[i].seconds = 0;
    }
}

/* Records the choice of a settled class at rank 0, for the report. */
static void record_choice(const struct cshim_class *class, struct cshim_ledger *ledger)
{
    const struct cshim_choice *choice = &class->choice;
    if (ledger == NULL || choice->phase != CSHIM_CHOICE_SETTLED)
        return;
    struct cshim_learned_choice learned = class->key;
    learned.is_native = choice->best == CSHIM_CANDIDATE_NATIVE;
    learned.algorithm = class->algorithms[choice->best];
    learned.codec = class->codecs[choice->best];
    learned.seconds = (double)choice->figures.agreed[choice->best].seconds;
    learned.seconds_native = (double)choice->figures.agreed[CSHIM_CANDIDATE_NATIVE].seconds;
    cshim_ledger_learn(ledger, &learned);
}

/* Logs, at rank 0, the durations by which a class has just been settled. */
static void log_choice(const struct cshim_class *class, const struct cshim_ledger *ledger)
{
    const struct cshim_choice *choice = &class->choice;
    char text[800] = "";
    if (ledger == NULL || choice->phase != CSHIM_CHOICE_SETTLED || choice->periods > 0)
        return;
    for (unsigned i = 0; i < choice->candidates; i++) {
        const bool is_native = i == CSHIM_CANDIDATE_NATIVE;
        const struct cshim_figure *learned = &choice->learned[i];
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s%s%s%s: %.1f (%.1f to %.1f) us",
                 i > 0 ? ", " : "", is_native ? "native" : cshim_codec_name(class->codecs[i]),
                 is_native ? "" : " ", is_native ? "" : cshim_algorithm_name(class->algorithms[i]),
                 i == choice->best ? " (chosen)" : "", 1e6 * (double)learned->seconds,
                 1e6 * (double)learned->low, 1e6 * (double)learned->high);
    }
    cshim_log(CSHIM_LOG_DEBUG, "all-reduces from %llu bytes under rule %s: %s",
              (unsigned long long)cshim_size_class_begin(class->key.size_class), class->rule->name,
              text);
}

void cshim_class_decided(struct cshim_class *class, struct cshim_ledger *ledger, bool is_new)
{
    if (is_new)
        log_choice(class, ledger);
    record_choice(class, ledger);
    cshim_class_count(class, ledger);
}

void cshim_class_decide(struct cshim_class *class, struct cshim_ledger *ledger)
{
    cshim_choice_decide(&class->choice);
    cshim_class_decided(class, ledger, true);
}

void cshim_class_add(struct cshim_class *class, unsigned candidate, double seconds)
{
    class->uncounted[candidate].calls++;
    class->uncounted[candidate].seconds += seconds;
}

void cshim_class_end(struct cshim_class *class, unsigned candidate, double seconds)
{
    cshim_choice_end(&class->choice, seconds);
    cshim_class_add(class, candidate, seconds);
}

void cshim_classes_count(struct cshim_class *classes, struct cshim_ledger *ledger)
{
    for (unsigned i = 0; classes != NULL && i < CSHIM_CLASSES_MAX && classes[i].rule != NULL; i++)
        cshim_class_count(&classes[i], ledger);
}
