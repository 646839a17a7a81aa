/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call: its plan is run, watched and counted. */
#include "codecs/floats.h"
#include "shim/mpi/internal.h"

/* Keys of random numbers, different for each call, rank and step. */
static uint64_t random_key(const struct cshim_exchange *exchange, enum cshim_message step)
{
    return cshim_mix(cshim_job.policy->seed * CSHIM_GOLDEN + ((uint64_t)exchange->sequence << 32) +
                     (uint64_t)cshim_job.rank * CSHIM_MESSAGES + (uint64_t)step);
}

void cshim_call_set_options(struct cshim_exchange *exchange)
{
    const struct cshim_rule *rule = exchange->plan->rule;
    exchange->has_options = rule->error_feedback || rule->stochastic;
    exchange->residual = rule->error_feedback ? cshim_feedback_find(exchange) : NULL;
    for (unsigned step = 0; step < CSHIM_MESSAGES; step++)
        exchange->keys[step] = random_key(exchange, (enum cshim_message)step);
    exchange->error =
        rule->max_rel_error > 0 ? cshim_watch_measure(exchange->plan, exchange->input) : 0;
}

/* The ranks that must tell each other the largest error: from the headers all ranks of an
 * all-reduce know it, but in hierarchical those of one node have spoken to different peers; and who
 * gets no sums has not heard from all. */
static MPI_Comm who_tells(const struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        return exchange->comm->node;
    return plan->collective == CSHIM_ALLREDUCE ? MPI_COMM_NULL : exchange->comm->comm;
}

/* Moves this kind of tensor to a more precise codec if any rank's encoder did worse than the rule
 * allows. */
static int watch_error(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    struct cshim_comm *comm = exchange->comm;
    const size_t rule = (size_t)(plan->rule - cshim_job.policy->rules);
    int status = MPI_SUCCESS;
    if (plan->rule->max_rel_error <= 0)
        return status;
    const MPI_Comm tellers = who_tells(exchange);
    if (tellers != MPI_COMM_NULL) {
        float own = exchange->error;
        status =
            cshim_job.real->MPI_Allreduce(&own, &exchange->error, 1, MPI_FLOAT, MPI_MAX, tellers);
    }
    if (status != MPI_SUCCESS || (double)exchange->error <= plan->rule->max_rel_error ||
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
    if (exchange->comm->rank == 0) {
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

int cshim_call_run(struct cshim_exchange *exchange)
{
    struct cshim_comm *comm = exchange->comm;
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
    if (status == MPI_SUCCESS)
        status = plan->algorithm == CSHIM_ALGORITHM_CAST ? cshim_cast_run(exchange)
                                                         : cshim_exchange_run(exchange);
    if (status == MPI_SUCCESS)
        status = watch_error(exchange);
    const double seconds = cshim_seconds() - began;
    cshim_trace_call(exchange, began, seconds);
    if (status == MPI_SUCCESS)
        status = cshim_sample_end(&sample, exchange);
    if (status == MPI_SUCCESS)
        status = cshim_check_ranks(exchange, call);
    if (native != NULL)
        exchange->figures.bytes_wire += 2 * (plan->count * exchange->element_bytes / plan->ranks) *
                                        (plan->ranks - 1); /* it was an all-reduce */
    cshim_verify_end(exchange, native);
    cshim_call_count(exchange, seconds);
    return status;
}
