/* SPDX-License-Identifier: Apache-2.0 */
/* One compressed call with all that its rule asks for: sampled, verified, watched and counted. */
#ifndef CSHIM_HOST_CALL_H
#define CSHIM_HOST_CALL_H

#include "shim/host/sample.h"

/* Makes the call. Returns an error of the transport. */
int cshim_call_run(struct cshim_exchange *exchange);
/* The scratch of a call, taken before the exchange and given back after it. To that of a failed
 * call the library may still write: it is lost. Ends the job without memory. */
void cshim_call_take_scratch(const struct cshim_exchange *exchange);
void cshim_call_give_scratch(const struct cshim_exchange *exchange, int status);
/* Parts of it, for a call that nobody waits for: what the rule asks of the encoding, before the
 * exchange begins; and the ledger, after it. */
void cshim_call_set_options(struct cshim_exchange *exchange);
void cshim_call_count(struct cshim_exchange *exchange, double seconds);

#endif
