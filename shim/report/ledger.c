/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/ledger.h"

#include <stdlib.h>
#include <string.h>

bool cshim_ledger_init(struct cshim_ledger *ledger, const struct cshim_policy *policy)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->policy = policy;
    ledger->passed = ledger->tally.passed;
    ledger->row_count = CSHIM_COLLECTIVE_COUNT * policy->rule_count * CSHIM_DTYPE_COUNT *
                        CSHIM_ALGORITHM_COUNT * CSHIM_CODEC_COUNT;
    ledger->rows = calloc(ledger->row_count + 1, sizeof *ledger->rows);
    return ledger->rows != NULL && pthread_mutex_init(&ledger->lock, NULL) == 0;
}

void cshim_ledger_free(struct cshim_ledger *ledger)
{
    pthread_mutex_destroy(&ledger->lock);
    free(ledger->rows);
    memset(ledger, 0, sizeof *ledger);
}

struct cshim_live *cshim_ledger_publish(struct cshim_ledger *ledger, struct cshim_live *live)
{
    struct cshim_live *before = ledger->live;
    uint64_t *passed = live != NULL ? live->passed : ledger->tally.passed;
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        passed[i] = ledger->passed[i];
    ledger->passed = passed;
    ledger->live = live;
    return before;
}

/* Adds figures of calls to the live ones. Rules beyond CSHIM_LIVE_RULES are counted in the last
 * entry. */
static void add_live(struct cshim_live *live, const struct cshim_plan *plan, size_t rule,
                     const struct cshim_row *figures)
{
    struct cshim_live_rule *to =
        &live->rules[rule < CSHIM_LIVE_RULES ? rule : CSHIM_LIVE_RULES - 1];
    to->codec = plan->codec;
    to->algorithm = plan->algorithm;
    cshim_row_add(&to->row, figures);
}

void cshim_ledger_add(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                      const struct cshim_row *figures)
{
    const size_t rule = cshim_rule_index(ledger->policy, plan->rule);
    const size_t place =
        ((size_t)plan->collective * ledger->policy->rule_count + rule) * CSHIM_DTYPE_COUNT +
        plan->dtype;
    const size_t kind = place * CSHIM_ALGORITHM_COUNT + (size_t)plan->algorithm;
    const size_t index = kind * CSHIM_CODEC_COUNT + (size_t)plan->codec;
    pthread_mutex_lock(&ledger->lock);
    cshim_row_add(&ledger->rows[index], figures);
    if (ledger->live != NULL)
        add_live(ledger->live, plan, rule, figures);
    pthread_mutex_unlock(&ledger->lock);
}

const char *cshim_counted_name(unsigned function)
{
    static const char *const names[CSHIM_COUNTED_ALL] = {CSHIM_MPI_COUNTED_NAMES,
                                                         CSHIM_GLOO_COUNTED_NAMES};
    return function < CSHIM_COUNTED_ALL ? names[function] : "?";
}

void cshim_ledger_learn(struct cshim_ledger *ledger, const struct cshim_learned_choice *choice)
{
    size_t at = 0;
    pthread_mutex_lock(&ledger->lock);
    while (at < ledger->learned_count && !cshim_learned_is_same_class(&ledger->learned[at], choice))
        at++;
    if (at < CSHIM_LEARNED_MAX) {
        ledger->learned[at] = *choice;
        ledger->learned_count += at == ledger->learned_count;
    }
    pthread_mutex_unlock(&ledger->lock);
}

static void add_changes(struct cshim_tally *tally, uint64_t changes,
                        const struct cshim_codec_change *change)
{
    for (uint64_t i = 0; i < changes && i < CSHIM_CODEC_CHANGES_MAX; i++)
        if (tally->changes + i < CSHIM_CODEC_CHANGES_MAX)
            tally->change[tally->changes + i] = change[i];
    tally->changes += changes;
}

void cshim_ledger_merge(struct cshim_ledger *ledger, const struct cshim_tally *tally)
{
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        ledger->passed[i] += tally->passed[i];
    for (size_t i = 0; i < CSHIM_COUNTED_ALL; i++) {
        ledger->tally.counted[i].calls += tally->counted[i].calls;
        ledger->tally.counted[i].bytes += tally->counted[i].bytes;
    }
    for (size_t i = 0; i < CSHIM_DTYPE_COUNT; i++)
        ledger->tally.unruled[i] += tally->unruled[i];
    ledger->tally.ruled_out += tally->ruled_out;
    add_changes(&ledger->tally, tally->changes, tally->change);
}

void cshim_ledger_add_change(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                             enum cshim_codec_id to, uint32_t call, float error)
{
    const struct cshim_codec_change change = {
        .rule = (uint32_t)cshim_rule_index(ledger->policy, plan->rule),
        .dtype = (uint8_t)plan->dtype,
        .from = (uint8_t)plan->codec,
        .to = (uint8_t)to,
        .count = plan->count,
        .call = call,
        .error = error,
    };
    pthread_mutex_lock(&ledger->lock);
    add_changes(&ledger->tally, 1, &change);
    pthread_mutex_unlock(&ledger->lock);
}

struct cshim_row_key cshim_ledger_key(const struct cshim_ledger *ledger, size_t index)
{
    const size_t way = index / CSHIM_CODEC_COUNT;
    const size_t kind = way / CSHIM_ALGORITHM_COUNT;
    const size_t rule = kind / CSHIM_DTYPE_COUNT;
    return (struct cshim_row_key){
        .collective = (enum cshim_collective)(rule / ledger->policy->rule_count),
        .rule = &ledger->policy->rules[rule % ledger->policy->rule_count],
        .dtype = (enum cshim_dtype)(kind % CSHIM_DTYPE_COUNT),
        .algorithm = (enum cshim_algorithm)(way % CSHIM_ALGORITHM_COUNT),
        .codec = (enum cshim_codec_id)(index % CSHIM_CODEC_COUNT),
    };
}

uint64_t cshim_ledger_passed(const struct cshim_ledger *ledger)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        total += ledger->passed[i];
    return total;
}

struct cshim_row cshim_ledger_total(const struct cshim_ledger *ledger)
{
    struct cshim_row total = {0};
    for (size_t i = 0; i < ledger->row_count; i++)
        cshim_row_add(&total, &ledger->rows[i]);
    return total;
}
