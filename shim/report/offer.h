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
/* Frees the texts of an offer. */
void cshim_offer_free(struct cshim_offer *offer);

/* Maximum number of bytes of a packed offer. */
#define CSHIM_OFFER_PACKED_MAX ((uint64_t)64 << 20)

/* Returns the number of bytes of an offer as one message. */
uint64_t cshim_offer_packed_bytes(const struct cshim_offer *offer);
/* Writes an offer as one message, of cshim_offer_packed_bytes() bytes. */
void cshim_offer_pack(const struct cshim_offer *offer, void *packed);
/* Copies an offer from a message of `bytes` bytes; the caller frees it. Returns false, with nothing
 * to free, if the message is malformed, or without memory. */
bool cshim_offer_unpack(struct cshim_offer *offer, const void *packed, uint64_t bytes);

/* Writes the digests of the texts as 64 digits; without learned choices an empty text. */
void cshim_offer_digest(const struct cshim_offer *offer, char policy[65], char learned[65]);

#endif
