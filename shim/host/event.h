/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that tells the ledger and the trace what took how long. All functions are
 * thread-safe. */
#ifndef CSHIM_HOST_EVENT_H
#define CSHIM_HOST_EVENT_H

#include "shim/host/exchange.h"

/* Counts and traces the seconds since the last step as those of a step that has ended or is
 * interrupted. */
void cshim_event_step(struct cshim_exchange *exchange, enum cshim_step step);
/* Counts and traces a compressed call that has ended. */
void cshim_event_call(const struct cshim_exchange *exchange, double began, double seconds);
/* A call that the library makes, and which is written down, or traced, or both. */
struct cshim_observation {
    struct cshim_job *job; /* NULL: neither */
    enum cshim_reason reason;
    double began;
    struct cshim_kind kind;
};
/* Brackets the library's own call. Rank 0 writes it down for all. */
void cshim_observation_begin(struct cshim_observation *observation, struct cshim_job *job,
                             const struct cshim_call *call, enum cshim_reason reason);
void cshim_observation_end(struct cshim_observation *observation, int rank);

#endif
