/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of the phases of a compressed call. */
#ifndef CSHIM_HOST_PHASE_H
#define CSHIM_HOST_PHASE_H

#include "shim/host/exchange.h"

/* Adds the time since exchange->mark to a phase and, if there is a trace, traces it unless it is
 * below 2 us. Called when the phase ends or is interrupted. */
void cshim_phase_end(struct cshim_exchange *exchange, enum cshim_phase phase);

#endif
