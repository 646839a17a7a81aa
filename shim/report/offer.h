/* SPDX-License-Identifier: Apache-2.0 */
/* Offer of one process to all ranks during the agreement: the policy, the choices that an earlier
 * job learned, and, with gloo and NCCL, whether calls are only recorded. */
#ifndef CSHIM_OFFER_H
#define CSHIM_OFFER_H

#include "shim/core/learned.h"

struct cshim_offer {
    char *text;
    size_t length;
    char source[CSHIM_PATH_MAX]; /* name of the policy */
    char *learned;               /* choices of an earlier job; NULL: this job measures */
    size_t learned_length;
    bool observe; /* COMPSHIM=observe: calls are recorded and passed through */
};

/* Loads the policy of this process, and the choices that COMPSHIM_MACHINE names. Returns true,
 * with warnings or nothing in `message`; the caller then frees the offer. Returns false, with an
 * error in `message` and nothing to free, if policy, environment or choices are wrong. */
bool cshim_offer_load(struct cshim_offer *offer, char message[CSHIM_MESSAGE_MAX]);
void cshim_offer_free(struct cshim_offer *offer);

/* Parses the choices of an offer. Sets *learned, which the caller frees; NULL if there are none.
 * Returns false with an error if they are wrong. */
bool cshim_offer_parse_learned(const struct cshim_offer *offer, struct cshim_learned **learned,
                               char message[CSHIM_MESSAGE_MAX]);

#endif
