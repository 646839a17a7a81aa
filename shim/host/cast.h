/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm `cast`: elements are narrowed, the library's own all-reduce adds them, and the sums
 * are widened. */
#ifndef CSHIM_HOST_CAST_H
#define CSHIM_HOST_CAST_H

#include "shim/host/exchange.h"

/* Makes a call whose plan has this algorithm, from begin to end. Returns an error of the transport.
 */
int cshim_cast_run(struct cshim_exchange *exchange);

#endif
