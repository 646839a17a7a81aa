/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a run reports: for a few calls, a few elements are also summed in float64 by the
 * library and compared with the compressed result. */
#include "shim/host/sample.h"

#include <string.h>

/* The elements of which some are compared, and the rank that does it. By blocks these are each
 * rank's in turn. */
static struct cshim_range choose_range(struct cshim_sample *sample,
                                       const struct cshim_exchange *exchange, uint32_t call)
{
    const struct cshim_plan *plan = exchange->plan;
    const uint64_t *begins = exchange->communicator->block_begins;
    const uint32_t block = call % plan->ranks;
    sample->taker =
        plan->schedule->sums_to == CSHIM_TO_ROOT || plan->schedule->parts_to == CSHIM_TO_ROOT
            ? (int)plan->root
            : 0;
    if (plan->schedule->division != CSHIM_BLOCKS)
        return (struct cshim_range){0, plan->count};
    if (plan->schedule->parts_to == CSHIM_TO_OWNER)
        sample->taker = (int)block;
    return (struct cshim_range){begins[block], begins[block + 1] - begins[block]};
}

void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call)
{
    sample->taken = cshim_is_sampled(call);
    if (!sample->taken)
        return;
    const struct cshim_range range = choose_range(sample, exchange, call);
    sample->length = range.length < CSHIM_SAMPLE_MAX ? (uint32_t)range.length : CSHIM_SAMPLE_MAX;
    sample->first = range.begin + cshim_sample_place(range.length, sample->length, call);
    memset(sample->values, 0, sizeof sample->values);
    /* Elements that only one rank has are summed with zeros of the others. */
    if (cshim_schedule_adds(exchange->plan->schedule) ||
        (int)(call % exchange->plan->ranks) == exchange->communicator->rank)
        cshim_sample_widen(exchange->plan->dtype,
                           exchange->input +
                               (sample->first - exchange->source.begin) * exchange->element_bytes,
                           sample->length, sample->values);
}

void cshim_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    double results[CSHIM_SAMPLE_MAX];
    if (!sample->taken)
        return;
    if (exchange->communicator->rank != sample->taker) {
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
        return 0;
    const int status = exchange->communicator->transport->sum_at(
        exchange, sample->values, sample->sums, (int)sample->length, sample->taker);
    if (status == 0)
        cshim_sample_compare(sample, exchange);
    return status;
}
