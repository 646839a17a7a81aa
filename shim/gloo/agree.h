/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement of the ranks of a context: do all of them have the shim, and which policy do they use?
 * docs/agreement.md has the protocol. */
#ifndef CSHIM_GLOO_AGREE_H
#define CSHIM_GLOO_AGREE_H

#include "shim/gloo/context.h"

/* Decision about a call. No call is compressed on one rank and passed through on another. */
struct cshim_gloo_verdict {
    bool is_native; /* passed through, whatever the policy says */
    bool is_open;   /* the caller calls cshim_gloo_agree_end() after gloo has made the call, unless
                       gloo throws */
    int64_t waited; /* milliseconds that a call with is_native has waited; 0 for other calls */
};
/* Decides, before a call, whether the policy applies to it. The ranks agree by messages in their
 * first calls, which are passed through as long as a rank may be late or lack the shim. A rank
 * without the shim is not disturbed: it never receives the messages. Once all have agreed, sets the
 * context's reason, job and layout. Thread-safe, as is cshim_gloo_agree_end(). */
struct cshim_gloo_verdict cshim_gloo_agree(struct cshim_gloo_context *context,
                                           const struct cshim_gloo_arguments *arguments);
/* Receives messages of the agreement after gloo has made a call whose verdict has is_open; after
 * the first such call that waits for all ranks, warns of ranks that do not answer. */
void cshim_gloo_agree_end(struct cshim_gloo_context *context,
                          const struct cshim_gloo_arguments *arguments);
/* Frees an agreement. Called after gloo has freed the context. Ignores NULL. */
void cshim_gloo_agreement_free(struct cshim_gloo_agreement *agreement);

#endif
