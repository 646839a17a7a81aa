/* SPDX-License-Identifier: Apache-2.0 */
/* Records durations in the figures of calls, in observed calls and in the trace. Thread-safe for
 * different calls. */
#ifndef CSHIM_HOST_EVENT_H
#define CSHIM_HOST_EVENT_H

#include "shim/host/exchange.h"

/* Adds the time since exchange->mark to a phase and, if there is a trace, traces it unless it is
 * below 2 us. Called when the phase ends or is interrupted. */
void cshim_event_phase(struct cshim_exchange *exchange, enum cshim_phase phase);
/* Traces a compressed call that has ended. */
void cshim_event_call(const struct cshim_exchange *exchange, double began, double seconds);
/* A call that is passed through, and recorded or traced. */
struct cshim_observation {
    struct cshim_job *job; /* NULL: the call is neither recorded nor traced */
    enum cshim_reason reason;
    double began;
    struct cshim_kind kind;
};
/* Called before and after the library makes the call. Each rank traces the call, if there is a
 * trace; rank 0 records it for all ranks if the job observes calls. */
void cshim_observation_begin(struct cshim_observation *observation, struct cshim_job *job,
                             const struct cshim_call *call, enum cshim_reason reason);
void cshim_observation_end(struct cshim_observation *observation, int rank);

#endif
