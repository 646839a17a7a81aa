/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback (the policy's error_feedback): stores the rounding error of each element of a
 * buffer, and adds it at the next call. All functions are thread-safe. */
#ifndef CSHIM_HOST_FEEDBACK_H
#define CSHIM_HOST_FEEDBACK_H

#include "shim/host/exchange.h"

/* Returns the residual of the exchange's buffer, for the duration of a call; makes it if there is
 * none. Returns NULL if another active call uses the buffer's residual, and, after a warning, if
 * there is no memory. The communicator owns it. If memory is short, frees residuals that were not
 * used for a long time. */
struct cshim_residual *cshim_residual_acquire(const struct cshim_exchange *exchange);
/* Ends the use of a residual. NULL is ignored. */
void cshim_residual_release(struct cshim_residual *residual);
/* Frees all residuals of a communicator. */
void cshim_residuals_free(struct cshim_communicator *communicator);
/* Resets the lock in a child of fork(): a thread that the child does not have may hold it. The
 * child's communicators must have no residuals. */
void cshim_residuals_abandon(void);

#endif
