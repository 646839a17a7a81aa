/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/classes.h"

#include <stdlib.h>

bool cshim_classes_reserve(struct cshim_communicator *communicator)
{
    const struct cshim_policy *policy = communicator->job->policy;
    bool is_measured = false;
    for (size_t i = 0; i < policy->rule_count; i++)
        is_measured |= policy->rules[i].worth == CSHIM_WORTH_MEASURED;
    if (is_measured)
        communicator->classes = calloc(CSHIM_CLASSES_MAX, sizeof *communicator->classes);
    return !is_measured || communicator->classes != NULL;
}

_Static_assert(CSHIM_CANDIDATES_MAX > CSHIM_PLAN_CANDIDATES_MAX, "native is a candidate, too");

/* Returns the number of the size class of `bytes` > 0. A class reaches from one power of the square
 * root of 2 to the next. */
static uint32_t size_class_of(uint64_t bytes)
{
    const uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes);
    const unsigned __int128 square = (unsigned __int128)bytes * bytes;
    return 2 * log + (square >> (2 * log + 1) != 0);
}

static bool is_class_of(const struct cshim_class *class, const struct cshim_class *wanted)
{
    return class->rule == wanted->rule && class->dtype == wanted->dtype &&
           class->codec == wanted->codec && class->size_class == wanted->size_class;
}

/* Returns the weight of a compressed candidate's duration: compressing has to gain a tenth, and so
 * has each rounding beyond the first two, which the usual algorithms have. */
static float weight_of(unsigned roundings)
{
    const float gain = 1 - (float)CSHIM_WORTH;
    float weight = 1 / gain;
    for (; roundings > 2; roundings--)
        weight /= gain;
    return weight;
}

/* Returns false if no algorithm can make the call. */
static bool start_class(struct cshim_class *class, const struct cshim_class *wanted,
                        const struct cshim_call *call, uint64_t count)
{
    struct cshim_plan_candidate found[CSHIM_PLAN_CANDIDATES_MAX];
    float weights[CSHIM_CANDIDATES_MAX] = {1};
    const unsigned compressed = cshim_plan_candidates(wanted->rule, call, count, found);
    if (compressed == 0)
        return false;
    *class = *wanted;
    for (unsigned i = 0; i < compressed; i++) {
        class->algorithms[i + 1] = found[i].algorithm;
        class->codecs[i + 1] = found[i].codec;
        weights[i + 1] = weight_of(found[i].roundings);
    }
    cshim_choice_init(&class->choice, compressed + 1, CSHIM_CANDIDATE_NATIVE + 1, weights);
    return true;
}

struct cshim_class *cshim_class_find(struct cshim_communicator *communicator,
                                     const struct cshim_rule *rule, const struct cshim_call *call,
                                     uint64_t count)
{
    const struct cshim_class wanted = {
        .rule = rule,
        .dtype = call->dtype,
        .codec = call->instead != CSHIM_CODEC_NONE ? call->instead : rule->codec,
        .size_class = size_class_of(call->bytes),
    };
    for (unsigned i = 0; i < CSHIM_CLASSES_MAX; i++) {
        struct cshim_class *class = &communicator->classes[i];
        if (class->rule == NULL && !start_class(class, &wanted, call, count))
            return NULL;
        if (is_class_of(class, &wanted))
            return class;
    }
    return NULL;
}

/* Adds to a row of the ledger. */
static void add_figures(const struct cshim_class *class,
                        const struct cshim_communicator *communicator, unsigned candidate,
                        const struct cshim_row *figures)
{
    const struct cshim_plan row = {
        .rule = class->rule,
        .collective = CSHIM_ALLREDUCE,
        .dtype = class->dtype,
        .algorithm = class->algorithms[candidate],
        .codec = class->codecs[candidate],
    };
    cshim_ledger_add(&communicator->job->ledger, &row, figures);
}

/* Counts the calls of a class whose native duration is known. Native calls stand in the row of the
 * first compressed candidate. */
static void count_class(struct cshim_class *class, const struct cshim_communicator *communicator)
{
    const double native = cshim_choice_native_seconds(&class->choice);
    if (communicator->rank != 0 || native <= 0)
        return;
    for (unsigned i = 0; i < class->choice.candidates; i++) {
        const bool is_native = i == CSHIM_CANDIDATE_NATIVE;
        const struct cshim_row figures = {
            .compared_calls = is_native ? 0 : class->uncounted[i].calls,
            .seconds_compared = is_native ? 0 : class->uncounted[i].seconds,
            .seconds_native_estimate = is_native ? 0 : (double)class->uncounted[i].calls * native,
            .native_calls = is_native ? class->uncounted[i].calls : 0,
            .seconds_native = is_native ? class->uncounted[i].seconds : 0,
        };
        if (class->uncounted[i].calls > 0)
            add_figures(class, communicator, is_native ? i + 1 : i, &figures);
        class->uncounted[i].calls = 0;
        class->uncounted[i].seconds = 0;
    }
}

void cshim_class_decide(struct cshim_class *class, const struct cshim_communicator *communicator)
{
    cshim_choice_decide(&class->choice);
    count_class(class, communicator);
}

void cshim_class_end(struct cshim_class *class, unsigned candidate, double seconds)
{
    cshim_choice_end(&class->choice, seconds);
    class->uncounted[candidate].calls++;
    class->uncounted[candidate].seconds += seconds;
}

void cshim_classes_count(const struct cshim_communicator *communicator)
{
    struct cshim_class *classes = communicator->classes;
    for (unsigned i = 0; classes != NULL && i < CSHIM_CLASSES_MAX && classes[i].rule != NULL; i++)
        count_class(&classes[i], communicator);
}
