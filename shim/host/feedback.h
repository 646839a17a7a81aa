/* SPDX-License-Identifier: Apache-2.0 */
/* error_feedback: what rounding took from each element is kept from call to call, and added the
 * next time. */
#ifndef CSHIM_HOST_FEEDBACK_H
#define CSHIM_HOST_FEEDBACK_H

#include "shim/host/exchange.h"

/* The residual of the exchange's buffer, made if there is none; NULL without memory, which is said
 * once. The communicator owns it. Where memory is short, residuals that were not used for long are
 * freed. */
struct cshim_residual *cshim_feedback_find(const struct cshim_exchange *exchange);
/* Frees all residuals of a communicator. */
void cshim_feedback_free(struct cshim_communicator *communicator);

#endif
