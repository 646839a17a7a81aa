/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of the ranks of a context: whether all of them have the shim, and which policy
 * holds. docs/agreement.md has the protocol. */
#ifndef CSHIM_GLOO_AGREE_H
#define CSHIM_GLOO_AGREE_H

#include "shim/gloo/context.h"

/* The verdict about a call, equal on all ranks. */
struct cshim_gloo_verdict {
    bool is_native; /* passed through, whatever the policy says */
    bool is_open;   /* cshim_gloo_agree_end follows, once gloo has made the call */
    int64_t waited; /* milliseconds, where the call is passed through */
};
/* Decides whether the policy applies to a call of a context, before the call. The ranks agree by
 * messages at the first calls, which are passed through as long as a rank may not have come yet or
 * may lack the shim. A rank without the shim gets messages that it never asks for, and is not
 * disturbed. Once all have agreed, the context's reason, job and layout are set. Thread-safe, as
 * the next one. */
struct cshim_gloo_verdict cshim_gloo_agree(struct cshim_gloo_context *context,
                                           const struct cshim_gloo_arguments *arguments);
/* Ends the agreement's part in a call whose verdict is_open. */
void cshim_gloo_agree_end(struct cshim_gloo_context *context,
                          const struct cshim_gloo_arguments *arguments);
/* Frees what an agreement has left; gloo has freed the context. NULL is ignored. */
void cshim_gloo_agreement_free(struct cshim_gloo_agreement *agreement);

#endif
