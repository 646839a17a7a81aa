/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a run reports: for a few calls, a few elements are also summed in float64 by the
 * library and compared with the compressed result. */
#include "shim/mpi/internal.h"

/* Whose result is compared: of a reduce_scatter each rank's in turn. */
static void choose_taker(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                         uint32_t call, struct cshim_range *result)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t *begins = exchange->comm->block_begins;
    sample->taker = plan->collective == CSHIM_REDUCE ? (int)plan->root : 0;
    *result = (struct cshim_range){0, plan->count};
    if (plan->collective == CSHIM_REDUCE_SCATTER) {
        sample->taker = (int)(call % plan->ranks);
        result->begin = begins[sample->taker];
        result->length = begins[sample->taker + 1] - result->begin;
    }
}

void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call_of_rule)
{
    struct cshim_range result;
    sample->taken = cshim_is_sampled(call_of_rule);
    if (!sample->taken)
        return;
    choose_taker(sample, exchange, call_of_rule, &result);
    sample->length = result.length < CSHIM_SAMPLE_MAX ? (uint32_t)result.length : CSHIM_SAMPLE_MAX;
    sample->first = result.begin + cshim_sample_place(result.length, sample->length, call_of_rule);
    cshim_sample_widen(exchange->plan->dtype,
                       exchange->input + sample->first * exchange->element_bytes, sample->length,
                       sample->values);
}

void cshim_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    double results[CSHIM_SAMPLE_MAX];
    if (!sample->taken)
        return;
    if (exchange->comm->rank != sample->taker) {
        exchange->figures.bytes_wire += sample->length * sizeof(double);
        return;
    }
    const uint64_t first = sample->first - exchange->result.begin;
    cshim_sample_widen(exchange->plan->dtype, exchange->output + first * exchange->element_bytes,
                       sample->length, results);
    cshim_sample_add(&exchange->figures, results, sample->sums, sample->length);
}

int cshim_sample_end(struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    if (!sample->taken)
        return MPI_SUCCESS;
    const int status =
        cshim_job.real->MPI_Reduce(sample->values, sample->sums, (int)sample->length, MPI_DOUBLE,
                                   MPI_SUM, sample->taker, exchange->comm->comm);
    if (status == MPI_SUCCESS)
        cshim_sample_compare(sample, exchange);
    return status;
}
