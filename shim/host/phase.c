/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/host/phase.h"

#include "shim/core/clock.h"

/* Shorter intervals are counted but not traced: a polling nonblocking call has very many. */
#define SHORTEST_SECONDS 2e-6

void cshim_phase_end(struct cshim_exchange *exchange, enum cshim_phase phase)
{
    const double began = exchange->mark, now = cshim_seconds(), seconds = now - began;
    exchange->mark = now;
    exchange->figures.seconds_of[phase] += seconds;
    struct cshim_trace *trace = exchange->communicator->job->trace;
    if (__builtin_expect(trace != NULL, 0) && seconds >= SHORTEST_SECONDS)
        cshim_trace_add(trace, (struct cshim_trace_event){.begin = began,
                                                          .seconds = seconds,
                                                          .call = exchange->sequence,
                                                          .kind = (uint8_t)phase});
}
