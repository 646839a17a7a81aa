/* SPDX-License-Identifier: Apache-2.0 */
/* The events of compressed calls: the one place that tells the ledger and the trace what took how
 * long. Thread-safe. */
#ifndef CSHIM_HOST_EVENT_H
#define CSHIM_HOST_EVENT_H

#include "shim/host/exchange.h"

/* A step of a call that began at a time of cshim_seconds has ended or is interrupted: its seconds
 * are counted and traced. Returns the time. */
double cshim_event_step(struct cshim_exchange *exchange, enum cshim_step step, double began);
/* A compressed call has ended. */
void cshim_event_call(const struct cshim_exchange *exchange, double began, double seconds);
/* A call that was passed on has ended; only while there is a trace. */
void cshim_event_passed(const struct cshim_kind *kind, enum cshim_reason reason, double began);

#endif
