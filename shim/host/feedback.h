/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback (the policy's error_feedback): keeps from call to call what rounding took from
 * each element of a buffer, and adds it the next time. All functions are thread-safe. */
#ifndef CSHIM_HOST_FEEDBACK_H
#define CSHIM_HOST_FEEDBACK_H

#include "shim/host/exchange.h"

/* The residual of the exchange's buffer, made if there is none, for the time of a call. NULL if
 * another call under way has that buffer's, or without memory, which is said once. The communicator
 * owns it. Where memory is short, residuals that were not used for long are freed. */
struct cshim_residual *cshim_residual_take(const struct cshim_exchange *exchange);
/* Ends the use of a residual; NULL: there was none. */
void cshim_residual_give(struct cshim_residual *residual);
/* Frees all residuals of a communicator. */
void cshim_residuals_free(struct cshim_communicator *communicator);
/* In a child of fork, whose communicators have no residuals: a thread that it does not have may
 * have held the lock. */
void cshim_residuals_abandon(void);

#endif
