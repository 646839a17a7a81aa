/* SPDX-License-Identifier: Apache-2.0 */
/* Error feedback on the host: the memory of residuals (shim/report/residual.h). Thread-safe. */
#ifndef CSHIM_HOST_FEEDBACK_H
#define CSHIM_HOST_FEEDBACK_H

#include "shim/host/exchange.h"

/* Initial value of a communicator's residuals. */
extern const struct cshim_residuals cshim_feedback_none;

/* Returns the residual of the exchange's buffer, for the duration of a call; the caller releases it
 * by cshim_residual_release(). Returns NULL if another call under way uses it, or if there is no
 * memory within the policy's feedback_memory (the first time with a warning). */
struct cshim_residual *cshim_feedback_acquire(const struct cshim_exchange *exchange);

/* Returns a residual's array for a type of messages. An element has the same index in this array as
 * in the call's buffer. */
float *cshim_feedback_values(const struct cshim_residual *residual, enum cshim_message message);

#endif
