/* SPDX-License-Identifier: Apache-2.0 */
/* Executes one compressed call with what its rule asks for (error feedback, max_rel_error, verify,
 * check_ranks), with samples, and with figures for the report. For a blocking call an engine calls
 * cshim_call_run(). For a nonblocking call, which is neither verified nor compared across ranks, it
 * calls the parts itself, around cshim_exchange_begin() and cshim_exchange_advance():
 *
 *     cshim_call_acquire_scratch(&exchange);
 *     cshim_call_set_options(&exchange);
 *     ... exchange ...
 *     cshim_call_count(&exchange, seconds);
 *     cshim_call_release_scratch(&exchange, status);
 *
 * Thread-safe for different communicators. */
#ifndef CSHIM_HOST_CALL_H
#define CSHIM_HOST_CALL_H

#include "shim/core/sample.h"
#include "shim/host/exchange.h"

/* Sampled elements of a call (shim/core/sample.h says which). */
struct cshim_sample {
    bool taken;
    int comparing_rank; /* rank that compares its result */
    uint64_t first;     /* offset of the first sampled element in the call */
    uint32_t length;    /* number of summed elements, equal on all ranks */
    uint32_t available; /* number of elements to compare: fewer if the block is short */
    double values[CSHIM_SAMPLE_MAX];
    double sums[CSHIM_SAMPLE_MAX];
};

/* Makes the call. Sets *seconds to the duration of the exchange on this rank, without samples,
 * verify and check_ranks, unless there is no scratch. Returns 0 or a transport error. */
int cshim_call_run(struct cshim_exchange *exchange, double *seconds);
/* Acquires the scratch of a call, before the exchange. If there is no memory, ends the job or
 * returns a transport error. */
int cshim_call_acquire_scratch(const struct cshim_exchange *exchange);
/* Releases scratch and residual after the exchange. If the call failed, the scratch is leaked,
 * because the library may still write to it. */
void cshim_call_release_scratch(const struct cshim_exchange *exchange, int status);

/* Sets what the rule asks of the encoding: error feedback, random keys, and the error of this
 * rank's own encoding (max_rel_error). Called after the scratch is acquired and exchange->sequence
 * is set, before the exchange. */
void cshim_call_set_options(struct cshim_exchange *exchange);
/* Saves input elements in `sample` if call number `call` is sampled. Called before the exchange. */
void cshim_call_sample_begin(struct cshim_sample *sample, const struct cshim_exchange *exchange,
                             uint32_t call);
/* Adds the call's figures to the ledger: on rank 0 all of them; on other ranks the bytes that they
 * send and the errors of results that they compare, or nothing if job->is_local. */
void cshim_call_count(struct cshim_exchange *exchange, double seconds);
/* Traces a compressed call that has ended, if there is a trace. */
void cshim_call_trace(const struct cshim_exchange *exchange, double began, double seconds);
/* Ends a sample. The comparing rank compares the result with sample->sums, which must be complete;
 * the other ranks count the bytes that they have sent for the sums. */
void cshim_call_sample_compare(const struct cshim_sample *sample, struct cshim_exchange *exchange);

#endif
