/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/event.h"

#include "shim/core/clock.h"

/* Shorter intervals are counted but not traced: a polling nonblocking call has very many. */
#define SHORTEST_SECONDS 2e-6

void cshim_event_phase(struct cshim_exchange *exchange, enum cshim_phase phase)
{
    const double began = exchange->mark, now = cshim_seconds(), seconds = now - began;
    struct cshim_row *figures = &exchange->figures;
    exchange->mark = now;
    *(phase == CSHIM_PHASE_ENCODE     ? &figures->seconds_encode
      : phase == CSHIM_PHASE_EXCHANGE ? &figures->seconds_exchange
                                      : &figures->seconds_decode) += seconds;
    struct cshim_trace *trace = exchange->communicator->job->trace;
    if (__builtin_expect(trace != NULL, 0) && seconds >= SHORTEST_SECONDS)
        cshim_trace_add(trace, (struct cshim_trace_event){.begin = began,
                                                          .seconds = seconds,
                                                          .call = exchange->sequence,
                                                          .kind = (uint8_t)phase});
}

void cshim_event_call(const struct cshim_exchange *exchange, double began, double seconds)
{
    const struct cshim_plan *plan = exchange->plan;
    const struct cshim_job *job = exchange->communicator->job;
    if (job->trace == NULL)
        return;
    cshim_trace_add(job->trace,
                    (struct cshim_trace_event){
                        .begin = began,
                        .seconds = seconds,
                        .bytes = plan->count * exchange->element_bytes,
                        .call = exchange->sequence,
                        .rule = (uint16_t)cshim_rule_index(job->policy, plan->rule),
                        .kind = exchange->nonblocking ? CSHIM_TRACE_PENDING : CSHIM_TRACE_CALL,
                        .collective = (uint8_t)plan->collective,
                        .codec = (uint8_t)plan->codec,
                        .algorithm = (uint8_t)plan->algorithm,
                    });
}

void cshim_observation_begin(struct cshim_observation *observation, struct cshim_job *job,
                             const struct cshim_call *call, enum cshim_reason reason)
{
    *observation = (struct cshim_observation){
        .job = job,
        .reason = reason,
        .kind = cshim_kind_of(call),
        .began = cshim_seconds(),
    };
}

void cshim_observation_end(struct cshim_observation *observation, int rank)
{
    struct cshim_job *job = observation->job;
    struct cshim_kind *kind = &observation->kind;
    if (job == NULL)
        return;
    kind->seconds = cshim_seconds() - observation->began;
    if (job->trace != NULL)
        cshim_trace_add(job->trace, (struct cshim_trace_event){
                                        .begin = observation->began,
                                        .seconds = kind->seconds,
                                        .bytes = kind->bytes,
                                        .kind = CSHIM_TRACE_PASSED,
                                        .collective = kind->collective,
                                        .reason = (uint8_t)observation->reason,
                                    });
    if (job->observed != NULL && rank == 0)
        cshim_observed_add(job->observed, kind);
}
