/* SPDX-License-Identifier: Apache-2.0 */
/* verify and check_ranks: a few compressed calls are also made natively, and their results are
 * compared with the native ones and across ranks. */
#ifndef CSHIM_HOST_VERIFY_H
#define CSHIM_HOST_VERIFY_H

#include "shim/host/exchange.h"

/* Sums natively if the rule's `call`th call is to be verified, before it is made. Leaves NULL in
 * *native if not, or if a rank has no memory. Collective; returns an error of the transport. */
int cshim_verify_begin(const struct cshim_exchange *exchange, uint32_t call, void **native);
/* Compares the result with what begin left, and frees that. */
void cshim_verify_end(struct cshim_exchange *exchange, void *native);
/* Compares a digest of the ranks' results, if that is due at the rule's `call`th call. Collective;
 * returns an error of the transport. */
int cshim_verify_ranks(struct cshim_exchange *exchange, uint32_t call);

#endif
