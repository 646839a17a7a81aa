/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cshim_ledger_init(struct cshim_ledger *ledger, const struct cshim_policy *policy)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->policy = policy;
    ledger->passed = ledger->own_passed;
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
    uint64_t *passed = live != NULL ? live->passed : ledger->own_passed;
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        passed[i] = ledger->passed[i];
    ledger->passed = passed;
    ledger->live = live;
    return before;
}

static void add_row(struct cshim_row *to, const struct cshim_row *from)
{
    to->calls += from->calls;
    to->bytes_in += from->bytes_in;
    to->bytes_wire += from->bytes_wire;
    to->bytes_network += from->bytes_network;
    to->bytes_native += from->bytes_native;
    to->seconds += from->seconds;
    to->seconds_encode += from->seconds_encode;
    to->seconds_exchange += from->seconds_exchange;
    to->seconds_decode += from->seconds_decode;
    to->error_squares += from->error_squares;
    to->sum_squares += from->sum_squares;
    to->samples += from->samples;
    to->verified += from->verified;
    to->verify_errors += from->verify_errors;
    to->verify_error_squares += from->verify_error_squares;
    to->verify_largest = fmax(to->verify_largest, from->verify_largest);
    to->verify_magnitudes += from->verify_magnitudes;
    to->verify_squares += from->verify_squares;
    to->checked += from->checked;
    to->differing += from->differing;
}

/* The last place is for all rules that have none of their own. */
static void add_live(struct cshim_live *live, const struct cshim_plan *plan, size_t rule,
                     const struct cshim_row *figures)
{
    struct cshim_live_rule *to =
        &live->rules[rule < CSHIM_LIVE_RULES ? rule : CSHIM_LIVE_RULES - 1];
    to->codec = plan->codec;
    to->algorithm = plan->algorithm;
    to->calls += figures->calls;
    to->bytes_native += figures->bytes_native;
    to->bytes_wire += figures->bytes_wire;
    to->seconds += figures->seconds;
    to->error_squares += figures->error_squares;
    to->sum_squares += figures->sum_squares;
}

void cshim_ledger_add(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                      const struct cshim_row *figures)
{
    const size_t rule = (size_t)(plan->rule - ledger->policy->rules);
    const size_t place =
        ((size_t)plan->collective * ledger->policy->rule_count + rule) * CSHIM_DTYPE_COUNT +
        plan->dtype;
    const size_t kind = place * CSHIM_ALGORITHM_COUNT + (size_t)plan->algorithm;
    const size_t index = kind * CSHIM_CODEC_COUNT + (size_t)plan->codec;
    pthread_mutex_lock(&ledger->lock);
    add_row(&ledger->rows[index], figures);
    if (ledger->live != NULL)
        add_live(ledger->live, plan, rule, figures);
    pthread_mutex_unlock(&ledger->lock);
}

void cshim_ledger_merge_row(struct cshim_ledger *ledger, size_t index, const struct cshim_row *row)
{
    add_row(&ledger->rows[index], row);
}

void cshim_ledger_merge_passed(struct cshim_ledger *ledger,
                               const uint64_t passed[CSHIM_REASON_COUNT])
{
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        ledger->passed[i] += passed[i];
}

const char *cshim_counted_name(enum cshim_mpi_counted function)
{
    static const char *const names[CSHIM_COUNTED_FUNCTIONS] = {CSHIM_COUNTED_NAMES};
    return (unsigned)function < CSHIM_COUNTED_FUNCTIONS ? names[function] : "?";
}

void cshim_ledger_merge_counted(struct cshim_ledger *ledger,
                                const struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS])
{
    for (size_t i = 0; i < CSHIM_COUNTED_FUNCTIONS; i++) {
        ledger->counted[i].calls += counted[i].calls;
        ledger->counted[i].bytes += counted[i].bytes;
    }
}

static void keep_moves(struct cshim_ledger *ledger, uint64_t moves, const struct cshim_move *move)
{
    for (uint64_t i = 0; i < moves && i < CSHIM_MOVES_MAX; i++)
        if (ledger->moves + i < CSHIM_MOVES_MAX)
            ledger->move[ledger->moves + i] = move[i];
    ledger->moves += moves;
}

void cshim_ledger_move(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                       enum cshim_codec_id to, uint32_t call, float error)
{
    const struct cshim_move move = {
        .rule = (uint32_t)(plan->rule - ledger->policy->rules),
        .dtype = (uint8_t)plan->dtype,
        .from = (uint8_t)plan->codec,
        .to = (uint8_t)to,
        .count = plan->count,
        .call = call,
        .error = error,
    };
    pthread_mutex_lock(&ledger->lock);
    keep_moves(ledger, 1, &move);
    pthread_mutex_unlock(&ledger->lock);
}

void cshim_ledger_merge_moves(struct cshim_ledger *ledger, uint64_t moves,
                              const struct cshim_move *move)
{
    keep_moves(ledger, moves, move);
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

double cshim_row_error(const struct cshim_row *row)
{
    if (row->samples == 0)
        return -1.0;
    return row->sum_squares > 0 ? sqrt(row->error_squares / row->sum_squares) : 0.0;
}

struct cshim_verdict cshim_row_verdict(const struct cshim_row *row)
{
    const double squares = row->verify_squares, magnitudes = row->verify_magnitudes;
    return (struct cshim_verdict){
        .rel_l2 = squares > 0 ? sqrt(row->verify_error_squares / squares) : 0.0,
        .largest = row->verify_largest,
        .bias = magnitudes > 0 ? row->verify_errors / magnitudes : 0.0,
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
        add_row(&total, &ledger->rows[i]);
    return total;
}
