/* SPDX-License-Identifier: Apache-2.0 */
/* The error that a run reports: for a few calls, a few elements are also summed in float64 by the
 * library and compared with the compressed result. */
#include <math.h>

#include "shim/mpi/internal.h"

#define SAMPLE_MAX (sizeof((struct cshim_sample *)0)->values / sizeof(double))

/* The first 16 calls under a rule, then every 1021st: a prime, so that a program whose tensors come
 * in turns has each of them sampled. The count is per communicator, so all its ranks choose alike.
 */
static bool is_sampled(uint32_t call)
{
    return call <= 16 || call % 1021 == 0;
}

/* Spreads the sampled places over the buffer, the same on all ranks. */
static uint64_t sample_place(uint64_t count, uint32_t length, uint32_t call)
{
    const uint64_t mixed = (call * UINT64_C(0x9e3779b97f4a7c15)) >> 16;
    return count > length ? mixed % (count - length + 1) : 0;
}

/* Widens elements to float64; exact for every dtype. */
static void widen(enum cshim_dtype dtype, const uint8_t *from, uint32_t length, double *to)
{
    float narrow[SAMPLE_MAX];
    if (dtype == CSHIM_FLOAT64) {
        memcpy(to, from, length * sizeof *to);
        return;
    }
    cshim_encode(CSHIM_CODEC_FP32, dtype, from, length, narrow); /* the payload is plain floats */
    for (uint32_t i = 0; i < length; i++)
        to[i] = narrow[i];
}

void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call_of_rule)
{
    const struct cshim_plan *plan = exchange->plan;
    sample->taken = is_sampled(call_of_rule);
    if (!sample->taken)
        return;
    sample->length = plan->count < SAMPLE_MAX ? (uint32_t)plan->count : (uint32_t)SAMPLE_MAX;
    sample->first = sample_place(plan->count, sample->length, call_of_rule);
    widen(plan->dtype, exchange->input + sample->first * exchange->element_bytes, sample->length,
          sample->values);
}

int cshim_sample_end(struct cshim_sample *sample, struct cshim_exchange *exchange)
{
    struct cshim_comm *comm = exchange->comm;
    double sums[SAMPLE_MAX], results[SAMPLE_MAX];
    if (!sample->taken)
        return MPI_SUCCESS;
    const int status =
        PMPI_Reduce(sample->values, sums, (int)sample->length, MPI_DOUBLE, MPI_SUM, 0, comm->comm);
    if (comm->rank != 0) {
        exchange->figures.bytes_wire += sample->length * sizeof(double);
        return status;
    }
    if (status != MPI_SUCCESS)
        return status;
    widen(exchange->plan->dtype, exchange->output + sample->first * exchange->element_bytes,
          sample->length, results);
    for (uint32_t i = 0; i < sample->length; i++) {
        if (!isfinite(sums[i]) || !isfinite(results[i]))
            continue;
        const double error = results[i] - sums[i];
        exchange->figures.error_squares += error * error;
        exchange->figures.sum_squares += sums[i] * sums[i];
        exchange->figures.samples++;
    }
    return MPI_SUCCESS;
}
