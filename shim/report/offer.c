/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/offer.h"

#include <stdlib.h>
#include <string.h>

#include "policy/list.h"
#include "shim/core/environment.h"

bool cshim_offer_load(struct cshim_offer *offer, char message[CSHIM_MESSAGE_MAX])
{
    char found[CSHIM_MESSAGE_MAX] = "";
    *offer = (struct cshim_offer){.observe = cshim_mode() == CSHIM_MODE_OBSERVE};
    offer->text = cshim_policy_load(NULL, &offer->length, offer->source, message);
    if (offer->text == NULL)
        return false;
    struct cshim_policy *policy =
        cshim_policy_parse(offer->text, offer->length, offer->source, found);
    bool is_right = policy != NULL && cshim_environment_check(policy, found, sizeof found);
    if (is_right && found[0] != '\0')
        cshim_list_add(message, CSHIM_MESSAGE_MAX, "; ", "%s", found);
    is_right = is_right && cshim_learned_load(&offer->learned, &offer->learned_length, found);
    cshim_policy_free(policy);
    if (is_right)
        return true;
    memcpy(message, found, sizeof found);
    cshim_offer_free(offer);
    return false;
}

void cshim_offer_free(struct cshim_offer *offer)
{
    free(offer->text);
    free(offer->learned);
}

/* Header of a packed offer. The policy's text and the learned choices follow. */
struct packed_header {
    uint64_t length; /* bytes of the policy's text */
    uint32_t has_learned;
    uint32_t observe;
    char source[CSHIM_PATH_MAX];
};

uint64_t cshim_offer_packed_bytes(const struct cshim_offer *offer)
{
    return sizeof(struct packed_header) + offer->length +
           (offer->learned != NULL ? offer->learned_length : 0);
}

void cshim_offer_pack(const struct cshim_offer *offer, void *packed)
{
    struct packed_header header = {
        .length = offer->length, .has_learned = offer->learned != NULL, .observe = offer->observe};
    char *texts = (char *)packed + sizeof header;
    memcpy(header.source, offer->source, sizeof header.source);
    memcpy(packed, &header, sizeof header);
    memcpy(texts, offer->text, offer->length);
    if (offer->learned != NULL)
        memcpy(texts + offer->length, offer->learned, offer->learned_length);
}

/* Returns a copy of a text with a 0 after it; NULL without memory. */
static char *copy_text(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

bool cshim_offer_unpack(struct cshim_offer *offer, const void *packed, uint64_t bytes)
{
    struct packed_header header;
    const char *texts = (const char *)packed + sizeof header;
    if (bytes < sizeof header)
        return false;
    memcpy(&header, packed, sizeof header);
    if (header.length > bytes - sizeof header)
        return false;
    *offer = (struct cshim_offer){.length = header.length, .observe = header.observe != 0};
    memcpy(offer->source, header.source, sizeof offer->source);
    offer->source[sizeof offer->source - 1] = '\0';
    offer->text = copy_text(texts, header.length);
    if (header.has_learned) {
        offer->learned_length = bytes - sizeof header - header.length;
        offer->learned = copy_text(texts + header.length, offer->learned_length);
    }
    if (offer->text != NULL && (offer->learned != NULL || !header.has_learned))
        return true;
    cshim_offer_free(offer);
    *offer = (struct cshim_offer){.text = NULL};
    return false;
}

void cshim_offer_digest(const struct cshim_offer *offer, char policy[65], char learned[65])
{
    cshim_policy_sha256(offer->text, offer->length, policy);
    learned[0] = '\0';
    if (offer->learned != NULL)
        cshim_policy_sha256(offer->learned, offer->learned_length, learned);
}
