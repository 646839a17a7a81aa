/* SPDX-License-Identifier: Apache-2.0 */
/* Terms of a context whose ranks compress: rank 0's policy, the choices of an earlier job, and the
 * node of each rank. Rank 0 sends them with its decision. */
#ifndef CSHIM_GLOO_TERMS_H
#define CSHIM_GLOO_TERMS_H

#include "shim/core/greeting.h"
#include "shim/gloo/context.h"
#include "shim/gloo/mail.h"

struct cshim_gloo_terms; /* terms.c */

/* Makes the terms of a context with these ranks, and sets their size in bytes. Returns NULL without
 * memory, or if they are too long; the caller frees them. */
struct cshim_gloo_terms *cshim_gloo_terms_make(const struct cshim_offer *offer,
                                               const struct cshim_greeting *greetings, int ranks,
                                               uint64_t *bytes);
/* Receives from rank 0 terms of this size. Returns NULL without memory, or if the size is
 * impossible; the caller frees them. If they do not come, the mail is broken. */
struct cshim_gloo_terms *cshim_gloo_terms_receive(struct cshim_gloo_mail *mail, uint64_t slot,
                                                  uint64_t bytes, int ranks, int64_t timeout);
/* Applies the terms to the context: job, layout, transport, memory. Returns false without memory,
 * or if the terms are malformed. */
bool cshim_gloo_terms_apply(const struct cshim_gloo_terms *terms, uint64_t bytes,
                            struct cshim_gloo_context *context);

#endif
