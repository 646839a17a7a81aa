/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a run reports: for a few calls, a few elements are also summed in float64 by the
 * library and compared with the compressed result. */
#include <math.h>

#include "codecs/floats.h"
#include "shim/mpi/internal.h"

/* Spreads the sampled places over the buffer, the same on all ranks. */
static uint64_t sample_place(uint64_t count, uint32_t length, uint32_t call)
{
    const uint64_t mixed = (call * CSHIM_GOLDEN) >> 16;
    return count > length ? mixed % (count - length + 1) : 0;
}

/* Widens elements to float64; exact for every dtype. */
static void widen(enum cshim_dtype dtype, const uint8_t *from, uint32_t length, double *to)
{
    float narrow[CSHIM_SAMPLE_MAX];
    if (dtype == CSHIM_FLOAT64) {
        memcpy(to, from, length * sizeof *to);
        return;
    }
    cshim_encode(CSHIM_CODEC_FP32, dtype, from, length, narrow); /* the payload is plain floats */
    for (uint32_t i = 0; i < length; i++)
        to[i] = narrow[i];
}

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
    sample->first = result.begin + sample_place(result.length, sample->length, call_of_rule);
    widen(exchange->plan->dtype, exchange->input + sample->first * exchange->element_bytes,
          sample->length, sample->values);
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
    widen(exchange->plan->dtype,
          exchange->output + (sample->first - exchange->result.begin) * exchange->element_bytes,
          sample->length, results);
    for (uint32_t i = 0; i < sample->length; i++) {
        if (!isfinite(sample->sums[i]) || !isfinite(results[i]))
            continue;
        const double error = results[i] - sample->sums[i];
        exchange->figures.error_squares += error * error;
        exchange->figures.sum_squares += sample->sums[i] * sample->sums[i];
        exchange->figures.samples++;
    }
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
