/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm `cast`: elements are converted to the codec's type (except with codec raw), the
 * library's own all-reduce adds them, and the sums are converted back. */
#ifndef CSHIM_HOST_CAST_H
#define CSHIM_HOST_CAST_H

#include "shim/host/exchange.h"

/* Makes a call whose plan has the algorithm cast. Returns 0 or a transport error. */
int cshim_cast_run(struct cshim_exchange *exchange);

#endif
