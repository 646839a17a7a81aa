/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's transport (shim/host/transport.h) over gloo's messages and gloo's own all-reduce.
 * Errors are exceptions, which are stored in the call. */
#ifndef CSHIM_GLOO_TRANSPORT_H
#define CSHIM_GLOO_TRANSPORT_H

#include "shim/gloo/context.h"

extern const struct cshim_transport cshim_gloo_transport;
/* Frees the buffers of a call that has ended. */
void cshim_gloo_transport_end(struct cshim_gloo_call *call);
/* Sets *largest to the largest of all ranks' integers, in a data-movement collective. Returns 0, or
 * 1 after storing an exception in *exception. */
int cshim_gloo_maximum(const struct cshim_gloo_arguments *arguments, uint64_t own,
                       uint64_t *largest, void **exception);

#endif
