/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the shim's overhead in all-reduces of gloo. Each pair has one call through the shim and
 * one of gloo's function, in one process and over the same connections, so that other load on the
 * machine affects both.
 *
 *   gloo_loopback_bench PAIRS BYTES...
 *
 * Rank 0 prints a line of JSON for each size: the median seconds of gloo's own calls and of the
 * differences within the pairs, with the latter's 95 % confidence interval by order statistics.
 * Large calls have fewer pairs. */
#include <math.h>

#include "shim/core/clock.h"
#include "tests/bench/times.h"
#include "tests/gloo/job.h"

static double seconds_of(struct context *context, struct sum_call *call, bool straight)
{
    call->straight = straight;
    double began = cshim_seconds();
    char *wrong = allreduce(context, call);
    if (wrong != NULL) {
        fprintf(stderr, "gloo_loopback_bench: %s\n", wrong);
        exit(1);
    }
    return cshim_seconds() - began;
}

static void measure(struct context *context, size_t bytes, size_t most)
{
    size_t in_256_kib = most * (256 << 10) / bytes;
    size_t pairs = in_256_kib < most / 10 ? most / 10 : in_256_kib < most ? in_256_kib : most;
    float *values = calloc(bytes / sizeof *values, sizeof *values);
    double *own = calloc(pairs, sizeof *own), *more = calloc(pairs, sizeof *more);
    if (values == NULL || own == NULL || more == NULL)
        exit(1);
    struct sum_call call = {
        .type = FLOAT32, .operation = SUM, .outputs = 1, .count = bytes / sizeof *values};
    call.output[0] = values;
    for (size_t i = 0; i < pairs; i++) {
        bool first = i % 2 == 0; /* each of the two comes first in half of the pairs */
        double one = seconds_of(context, &call, first), other = seconds_of(context, &call, !first);
        own[i] = first ? one : other;
        more[i] = first ? other - one : one - other;
    }
    const double seconds = median_of(own, pairs), seconds_more = median_of(more, pairs);
    /* Indices that enclose the median in n ordered values, at 95 %: n/2 -+ 1.96 sqrt(n)/2. */
    size_t aside = (size_t)ceil(0.98 * sqrt((double)pairs)),
           low = pairs / 2 > aside ? pairs / 2 - aside : 0;
    size_t high = pairs / 2 + aside < pairs ? pairs / 2 + aside : pairs - 1;
    if (job_rank() == 0)
        printf("{\"ranks\": %d, \"bytes\": %zu, \"pairs\": %zu, \"seconds\": %.3e, "
               "\"seconds_more\": %.3e, "
               "\"interval\": [%.3e, %.3e]}\n",
               job_ranks(), bytes, pairs, seconds, seconds_more, more[low], more[high]);
    free(values);
    free(own);
    free(more);
}

int main(int argc, char **argv)
{
    size_t pairs = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++)
        if (strtoul(argv[i], NULL, 10) < sizeof(float))
            pairs = 0;
    if (pairs == 0) {
        fprintf(stderr, "usage: gloo_loopback_bench PAIRS BYTES...\n");
        return 2;
    }
    struct context *context = context_make("bench", job_rank(), job_ranks(), 60000, ANYWHERE);
    for (int i = 2; i < argc; i++)
        measure(context, strtoul(argv[i], NULL, 10), pairs);
    context_free(context);
    return 0;
}
