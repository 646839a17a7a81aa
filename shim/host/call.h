/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call with all that its rule asks for: sampled, verified, watched and counted. */
#ifndef CSHIM_HOST_CALL_H
#define CSHIM_HOST_CALL_H

#include "shim/core/sample.h"
#include "shim/host/exchange.h"

/* The sampled error of a call (shim/core/sample.h says which calls and elements). */
struct cshim_sample {
    bool taken;
    int taker;       /* the rank whose result is compared */
    uint64_t first;  /* element */
    uint32_t length; /* elements that are summed, */
    uint32_t held;   /* and those that the taker has of them: of a short block fewer */
    double values[CSHIM_SAMPLE_MAX];
    double sums[CSHIM_SAMPLE_MAX];
};

/* Makes the call and sets *seconds to what the exchange took this rank, without samples and checks.
 * Returns an error of the transport. */
int cshim_call_run(struct cshim_exchange *exchange, double *seconds);
/* The scratch of a call, taken before the exchange and given back after it, with the residual that
 * set_options has taken. To the scratch of a failed call the library may still write: it is lost.
 * take returns an error of the transport without memory, unless that ends the job. */
int cshim_call_acquire_scratch(const struct cshim_exchange *exchange);
void cshim_call_release_scratch(const struct cshim_exchange *exchange, int status);

/* Parts of it, for a call that nobody waits for. Before the exchange, set_options does what the
 * rule asks of the encoding, and sample_begin keeps some of the input if the rule's `call`th call
 * is sampled. After the exchange, count tells the ledger, and sample_compare compares the sample,
 * whose sums have to be there. */
void cshim_call_set_options(struct cshim_exchange *exchange);
void cshim_call_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                             uint32_t call);
void cshim_call_count(struct cshim_exchange *exchange, double seconds);
void cshim_call_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange);

#endif
