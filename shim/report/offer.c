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

bool cshim_offer_parse_learned(const struct cshim_offer *offer, struct cshim_learned **learned,
                               char message[CSHIM_MESSAGE_MAX])
{
    *learned = NULL;
    if (offer->learned != NULL)
        *learned =
            cshim_learned_parse(offer->learned, offer->learned_length, "COMPSHIM_MACHINE", message);
    return offer->learned == NULL || *learned != NULL;
}
