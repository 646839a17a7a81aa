/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report/job.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/core/log.h"

bool cshim_job_adopt(struct cshim_job *job, const struct cshim_offer *offer,
                     char message[CSHIM_MESSAGE_MAX])
{
    job->policy = cshim_policy_parse(offer->text, offer->length, offer->source, message);
    if (job->policy == NULL)
        return false;
    if (cshim_offer_parse_learned(offer, &job->learned, message)) {
        cshim_offer_digest(offer, job->policy_sha256, job->learned_sha256);
        cshim_log_set_level(job->policy->log);
        if (cshim_ledger_init(&job->ledger, job->policy))
            return true;
        snprintf(message, CSHIM_MESSAGE_MAX, "no memory for the ledger");
        free(job->learned);
    }
    cshim_policy_free(job->policy);
    return false;
}
