/* SPDX-License-Identifier: Apache-2.0 */
/* The sampled error of one call on host memory (shim/core/sample.h says which calls and elements).
 * Begin and end are collective, and cheap where the call is not sampled. */
#ifndef CSHIM_HOST_SAMPLE_H
#define CSHIM_HOST_SAMPLE_H

#include "shim/core/sample.h"
#include "shim/host/exchange.h"

struct cshim_sample {
    bool taken;
    int taker;       /* the rank whose result is compared */
    uint64_t first;  /* element */
    uint32_t length; /* elements */
    double values[CSHIM_SAMPLE_MAX];
    double sums[CSHIM_SAMPLE_MAX];
};

/* Keeps some of the input before the rule's `call`th call. */
void cshim_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                        uint32_t call);
/* Sums what begin kept in float64, and compares. Returns an error of the transport. */
int cshim_sample_end(struct cshim_sample *sample, struct cshim_exchange *exchange);
/* The second half of end, once the sums are there. */
void cshim_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange);

#endif
