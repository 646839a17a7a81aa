/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call: its plan is run, watched and counted. */
#include "shim/host/call.h"

#include "codecs/floats.h"
#include "shim/core/arithmetic.h"
#include "shim/core/clock.h"
#include "shim/core/log.h"
#include "shim/host/event.h"
#include "shim/host/feedback.h"
#include "shim/host/scratch.h"
#include "shim/host/verify.h"

/* Keys of random numbers, different for each communicator, call, rank and step. */
static uint64_t random_key(const struct cshim_exchange *exchange, enum cshim_message kind)
{
    const uint64_t stream =
        cshim_job.policy->seed * CSHIM_GOLDEN + cshim_mix(exchange->communicator->number);
    return cshim_mix(stream + ((uint64_t)exchange->sequence << 32) +
                     (uint64_t)cshim_job.rank * CSHIM_MESSAGES + (uint64_t)kind);
}

void cshim_call_take_scratch(const struct cshim_exchange *exchange)
{
    struct cshim_communicator *communicator = exchange->communicator;
    communicator->scratch = cshim_scratch_take();
    if (communicator->scratch == NULL)
        communicator->transport->abort(exchange); /* the other ranks are in the call */
}

void cshim_call_give_scratch(const struct cshim_exchange *exchange, int status)
{
    if (status == 0)
        cshim_scratch_give(exchange->communicator->scratch);
    exchange->communicator->scratch = NULL;
}

void cshim_call_set_options(struct cshim_exchange *exchange)
{
    const struct cshim_rule *rule = exchange->plan->rule;
    exchange->has_options = rule->error_feedback || rule->stochastic;
    exchange->residual = rule->error_feedback ? cshim_feedback_find(exchange) : NULL;
    for (unsigned kind = 0; kind < CSHIM_MESSAGES; kind++)
        exchange->keys[kind] = random_key(exchange, (enum cshim_message)kind);
    exchange->error = rule->max_rel_error > 0 ? cshim_watch_measure(exchange->plan, exchange->input,
                                                                    exchange->source.length)
                                              : 0;
}

/* Has every rank know the largest error of any rank's encoding. From the headers each rank knows
 * those of its peers. In hierarchical a rank has peers with its own place in their nodes only, and
 * where nodes are uneven some ranks have none. In a reduce or a reduce_scatter a rank that receives
 * no sums has not seen every rank's header. */
static int share_error(struct cshim_exchange *exchange)
{
    const struct cshim_schedule *schedule = exchange->plan->schedule;
    uint64_t own = cshim_float_bits(exchange->error), largest = 0;
    if (cshim_schedule_is_shared(schedule) && !schedule->staged)
        return 0;
    const int status = exchange->communicator->transport->maximum(exchange, &own, &largest, 1);
    if (status == 0)
        exchange->error = cshim_bits_float((uint32_t)largest);
    return status;
}

/* Moves this kind of tensor to a more precise codec if any rank's encoder did worse than the rule
 * allows. */
static int watch_error(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_communicator *comm = exchange->communicator;
    const size_t rule = (size_t)(plan->rule - cshim_job.policy->rules);
    if (plan->rule->max_rel_error <= 0)
        return 0;
    const int status = share_error(exchange);
    if (status != 0 || (double)exchange->error <= plan->rule->max_rel_error ||
        plan->codec == CSHIM_CODEC_RAW)
        return status;
    const enum cshim_codec_id next = cshim_watch_move(&comm->watch, rule, plan);
    if (comm->rank != 0)
        return status;
    cshim_log(CSHIM_LOG_INFO,
              "rule '%s': %llu x %s go in %s after call %u: %s lost %.2g of them, max_rel_error is "
              "%.2g",
              plan->rule->name, (unsigned long long)plan->count, cshim_dtype_name(plan->dtype),
              cshim_codec_name(next), exchange->sequence, cshim_codec_name(plan->codec),
              (double)exchange->error, plan->rule->max_rel_error);
    cshim_ledger_move(&cshim_job.ledger, plan, next, exchange->sequence, exchange->error);
    return status;
}

/* Rank 0 counts for all, but for the bytes that each rank sends. */
void cshim_call_count(struct cshim_exchange *exchange, double seconds)
{
    struct cshim_row *figures = &exchange->figures;
    const struct cshim_plan *plan = exchange->plan;
    figures->bytes_native = plan->bytes_native / plan->ranks;
    if (exchange->communicator->rank == 0) {
        figures->calls = 1;
        figures->bytes_in = plan->count * exchange->element_bytes;
        figures->bytes_native += plan->bytes_native % plan->ranks;
        figures->seconds = seconds;
    } else {
        figures->seconds_encode = 0;
        figures->seconds_exchange = 0;
        figures->seconds_decode = 0;
    }
    cshim_ledger_add(&cshim_job.ledger, plan, figures);
}

static int run(struct cshim_exchange *exchange)
{
    struct cshim_communicator *comm = exchange->communicator;
    const struct cshim_plan *plan = exchange->plan;
    const size_t rule = (size_t)(plan->rule - cshim_job.policy->rules);
    const uint32_t call = ++comm->calls_by_rule[rule];
    struct cshim_sample sample;
    void *native = NULL;

    exchange->sequence = ++comm->sequence;
    cshim_sample_begin(&sample, exchange, call);
    int status = cshim_verify_begin(exchange, call, &native);
    const double began = cshim_seconds();
    cshim_call_set_options(exchange);
    if (status == 0)
        status = cshim_exchange_run(exchange);
    if (status == 0)
        status = watch_error(exchange);
    const double seconds = cshim_seconds() - began;
    cshim_event_call(exchange, began, seconds);
    if (status == 0)
        status = cshim_sample_end(&sample, exchange);
    if (status == 0)
        status = cshim_verify_ranks(exchange, call);
    if (native != NULL)
        exchange->figures.bytes_wire += 2 * (plan->count * exchange->element_bytes / plan->ranks) *
                                        (plan->ranks - 1); /* it was an all-reduce */
    cshim_verify_end(exchange, native);
    cshim_call_count(exchange, seconds);
    return status;
}

int cshim_call_run(struct cshim_exchange *exchange)
{
    const fenv_t programs = cshim_arithmetic_begin();
    cshim_call_take_scratch(exchange);
    const int status = run(exchange);
    cshim_call_give_scratch(exchange, status);
    cshim_arithmetic_end(&programs);
    return status;
}
